"""What must be known of a cluster to judge a job file: its virtual clusters and types of SKU.

    skuTypes:
      K80: {gpu: 1, cpu: 4, memoryMB: 8192}
    virtualClusters:
      default: {K80: 16}
      research:          # nothing said: any type, any number

Without facts every virtual cluster and every type is taken as known, of the size `ANY_SKU`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from skep_jobfile import document
from skep_jobfile.explain import explain
from skep_jobfile.models import Amount
from skep_jobfile.part import CONFIG
from skep_jobfile.problems import InvalidJobFile


class Sku(BaseModel):
    """What one unit of a type has."""

    model_config = CONFIG

    gpu: Amount
    cpu: Amount
    memory_mb: Annotated[Amount, Field(alias="memoryMB")]


ANY_SKU = Sku.model_validate({"gpu": 1, "cpu": 4, "memoryMB": 8192})


class ClusterFacts(BaseModel):
    model_config = CONFIG

    sku_types: Annotated[dict[str, Sku], Field(min_length=1)] | None = None
    virtual_clusters: dict[str, dict[str, Amount] | None] | None = None

    def sku(self, name: str) -> Sku | None:
        """None for a type that is not known."""
        return ANY_SKU if self.sku_types is None else self.sku_types.get(name)

    def types_of(self, vc: str, *, opportunistic: bool) -> dict[str, Sku]:
        """The types that a job of this virtual cluster may take; opportunistic jobs take all."""
        everything = self.sku_types if self.sku_types is not None else {"": ANY_SKU}
        quota = self.quota_of(vc)
        if opportunistic or quota is None:
            return everything
        return {name: sku for name, sku in everything.items() if name in quota}

    def quota_of(self, vc: str) -> dict[str, int] | None:
        """SKUs by type; None where nothing is said."""
        return (self.virtual_clusters or {}).get(vc)


def read(text: str) -> ClusterFacts:
    """Read the facts. Raises InvalidJobFile with each problem of the facts and its place."""
    found = document.read(text)
    facts, issues = explain(ClusterFacts, found.data)
    if facts is None:
        raise InvalidJobFile([found.locate(issue) for issue in issues])
    return facts
