"""All reads of images: one that names virtual clusters exists only for their members."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, QuerySet

from skep_platform.core.errors import NotFound
from skep_platform.images.models import Image
from skep_platform.tenancy import queries as tenancy


def visible_to(user: Any) -> QuerySet[Image]:
    """By name; `known_vcs` are those of its virtual clusters that the user may know of."""
    images = Image.objects.order_by("name")
    mine = tenancy.visible_to(user).order_by("name")
    if not tenancy.is_admin(user):
        listed = Image.virtual_clusters.through.objects.filter(image=OuterRef("pk"))
        images = images.filter(~Exists(listed) | Exists(listed.filter(virtualcluster__in=mine)))
    return images.prefetch_related(Prefetch("virtual_clusters", queryset=mine, to_attr="known_vcs"))


def find(user: Any, name: str) -> Image:
    """Raises NotFound, also when it exists and the user may not know."""
    image = visible_to(user).filter(name=name).first()
    if image is None:
        raise NotFound(f"There is no image named {name}.")
    return image
