"""All writes to images."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from skep_platform.accounts.models import User
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.images.models import Image
from skep_platform.tenancy.models import NAME, VirtualCluster

# [host[:port]/]path[:tag][@digest], as Docker reads it; each part is matched in linear time.
REFERENCE = re.compile(
    r"(?:[a-zA-Z0-9][a-zA-Z0-9.-]*(?::[0-9]{1,5})?/)?[a-z0-9][a-z0-9._/-]*"
    r"(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
MAX_REFERENCE = 512


@transaction.atomic
def create(
    user: User,
    name: str,
    reference: str,
    description: str = "",
    virtual_clusters: Sequence[str] = (),
) -> Image:
    """An image for these virtual clusters, or for everybody. Raises Conflict `name_taken`,
    SkepError `name_invalid`, `reference_invalid`, NotFound."""
    _check_name(name)
    image = Image(name=name, reference=_checked(reference), description=description)
    image.created_by = user
    _save(image)
    image.virtual_clusters.set(_found(virtual_clusters))
    _record(user, image, "created")
    return image


@transaction.atomic
def update(
    user: User,
    image: Image,
    *,
    name: str | None = None,
    reference: str | None = None,
    description: str | None = None,
    virtual_clusters: Sequence[str] | None = None,
) -> Image:
    """Jobs keep the reference that they were submitted with. Raises what `create` does."""
    if name is not None:
        _check_name(name)
        image.name = name
    if reference is not None:
        image.reference = _checked(reference)
    if description is not None:
        image.description = description
    _save(image)
    if virtual_clusters is not None:
        image.virtual_clusters.set(_found(virtual_clusters))
    _record(user, image, "changed")
    return image


@transaction.atomic
def delete(user: User, image: Image) -> None:
    _record(user, image, "deleted")
    image.delete()


def _check_name(name: str) -> None:
    try:
        NAME(name)
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=name[:100]) from None


def _checked(reference: str) -> str:
    if len(reference) > MAX_REFERENCE or not REFERENCE.fullmatch(reference):
        message = 'An image reference looks like "pytorch/pytorch:2.9".'
        raise SkepError(message, code="reference_invalid", reference=reference[:100])
    return reference


def _save(image: Image) -> None:
    try:
        with transaction.atomic():
            image.save()
    except IntegrityError:
        message = f"An image named {image.name} exists."
        raise Conflict(message, code="name_taken", name=image.name) from None


def _found(names: Sequence[str]) -> list[VirtualCluster]:
    vcs = list(VirtualCluster.objects.filter(name__in=names))
    missing = sorted(set(names) - {vc.name for vc in vcs})
    if missing:
        raise NotFound(f"There is no virtual cluster named {missing[0]}.", missing=missing)
    return vcs


def _record(user: User, image: Image, verb: str) -> None:
    message = f"Image {image.name} ({image.reference}) was {verb}."
    record("image", image.pk, f"image.{verb}", message, actor=user.get_username())
