"""Requests about cells, queues and drains, as `calls` has the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skep_client import models
from skep_client.calls import Call, given
from skep_client.model import Page

YAML = {"Content-Type": "text/yaml"}


def overview() -> Call[models.Cells]:
    return Call("GET", "cells", models.Cells)


def physical(chain: str, under: str = "", depth: int = 1) -> Call[Page[models.PhysicalCell]]:
    params = given({"chain": chain, "under": under, "depth": depth})
    return Call("GET", "cells/physical", Page[models.PhysicalCell], params=params)


def assignment() -> Call[models.Assignment]:
    return Call("GET", "cells/assignment", models.Assignment)


def check_assignment(wanted: models.Assignment) -> Call[models.CheckedAssignment]:
    body = wanted.model_dump(mode="json")
    return Call("POST", "cells/assignment/check", models.CheckedAssignment, json=body)


def set_assignment(wanted: models.Assignment) -> Call[models.CheckedAssignment]:
    """Refused with `revision_stale` where somebody changed it since it was read: so is the second
    of two equal requests, and it is not repeated by itself."""
    body = wanted.model_dump(mode="json")
    answer = models.CheckedAssignment
    return Call("PUT", "cells/assignment", answer, json=body, repeatable=False)


def export_hived() -> Call[str]:
    return Call("GET", "cells/hived", str, headers={"Accept": "text/yaml, application/json"})


def check_hived(text: str, *, assign: bool = False) -> Call[models.CheckedAssignment]:
    return _layout("POST", "cells/hived/check", text, assign=assign)


def import_hived(text: str, *, assign: bool = False) -> Call[models.CheckedAssignment]:
    """`assign` also takes what the file gives to virtual clusters."""
    return _layout("PUT", "cells/hived", text, assign=assign)


def delete_hived() -> Call[None]:
    return Call("DELETE", "cells/hived", None)


def of_vc(vc: str, **params: Any) -> Call[models.VcCells]:
    return Call("GET", f"virtual-clusters/{vc}/cells", models.VcCells, params=given(params))


def queue(vc: str, **params: Any) -> Call[models.VcQueue]:
    return Call("GET", f"virtual-clusters/{vc}/queue", models.VcQueue, params=given(params))


def history(vc: str, **params: Any) -> Call[models.VcHistory]:
    return Call("GET", f"virtual-clusters/{vc}/history", models.VcHistory, params=given(params))


def node_forecast(node: str, action: str = "drain") -> Call[models.NodeForecast]:
    params: Mapping[str, Any] = {"action": action}
    return Call("GET", f"nodes/{node}/forecast", models.NodeForecast, params=params)


def drain(node: str) -> Call[models.Node]:
    return Call("POST", f"nodes/{node}/drain", models.Node)


def undrain(node: str) -> Call[models.Node]:
    return Call("POST", f"nodes/{node}/undrain", models.Node)


def _layout(method: str, path: str, text: str, *, assign: bool) -> Call[models.CheckedAssignment]:
    params = {"assign": "1"} if assign else {}
    return Call(
        method,
        path,
        models.CheckedAssignment,
        params=params,
        content=text.encode(),
        headers=YAML,
    )
