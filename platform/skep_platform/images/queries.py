"""All reads of images: one that names virtual clusters exists only for their members."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet

from skep_agent.image_patterns import listed_name
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.core.errors import NotFound
from skep_platform.images.models import Image, NodeImage
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster


def visible_to(user: Any) -> QuerySet[Image]:
    """Select the images that the user may use, by name; `known_vcs` are those of its virtual
    clusters that the user may know of."""
    images = Image.objects.order_by("name").select_related("managed_by")
    mine = tenancy.visible_to(user).order_by("name")
    if not tenancy.is_admin(user):
        listed = Image.virtual_clusters.through.objects.filter(image=OuterRef("pk"))
        images = images.filter(~Exists(listed) | Exists(listed.filter(virtualcluster__in=mine)))
    return images.prefetch_related(Prefetch("virtual_clusters", queryset=mine, to_attr="known_vcs"))


def find(user: Any, name: str) -> Image:
    """Return an image. Raises NotFound, also when it exists and the user may not see it."""
    image = visible_to(user).filter(name=name).first()
    if image is None:
        raise NotFound(f"There is no image named {name}.")
    return image


def reference_of(vc: VirtualCluster, name: str) -> str:
    """Return what jobs of a virtual cluster pull for a name of the catalogue; other texts as they
    are."""
    usable = Q(virtual_clusters=None) | Q(virtual_clusters=vc)
    found = Image.objects.filter(usable, name=name).values_list("reference", flat=True).first()
    return found or name


def only_of(virtual_cluster: UUID) -> list[str]:
    """Return the names of the images that no other virtual cluster may use."""
    alone = Image.objects.annotate(holders=Count("virtual_clusters")).filter(holders=1)
    mine = alone.filter(virtual_clusters=virtual_cluster).order_by("name")
    return list(mine.values_list("name", flat=True))


def names_by_listed(user: Any) -> dict[str, str]:
    """Return the names of the images that the user may use, by their references as engines list
    them. At most MAX_NAMES."""
    rows = visible_to(user).prefetch_related(None).values_list("reference", "name")[:MAX_NAMES]
    return {listed_name(reference): name for reference, name in rows}


def nodes_holding(references: Collection[str]) -> dict[str, int]:
    """Return on how many nodes each of these references is, as agents reported it. One query."""
    listed = {reference: listed_name(reference) for reference in references}
    rows = NodeImage.objects.filter(reference__in=set(listed.values()))
    rows = rows.exclude(node__state=NodeState.REMOVED).order_by()
    counts = dict(rows.values_list("reference").annotate(nodes=Count("pk")))
    return {reference: counts.get(name, 0) for reference, name in listed.items()}


MAX_NAMES = 5000


def drivers_too_old(needed: Collection[str]) -> dict[str, str]:
    """Return the newest driver of NVIDIA on any node with GPUs, by each of the needed versions that
    none has. A node whose driver is not known may have it. One query, none where nothing is
    needed."""
    if not any(needed):
        return {}
    with_gpus = Device.objects.filter(node=OuterRef("pk")).exclude(health=Device.Health.ABSENT)
    nodes = Node.objects.exclude(state=NodeState.REMOVED).filter(Exists(with_gpus)).order_by()
    found = set(nodes.values_list("driver_version", flat=True).distinct())
    if not found or "" in found:
        return {}
    newest = max(found, key=_numbers)
    return {one: newest for one in needed if one and _numbers(newest) < _numbers(one)}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,6}", version))
