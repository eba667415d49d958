"""All writes to images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from skep_limits import can_be_pulled
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.images.models import Image
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import NAME, VirtualCluster

DRIVER = re.compile(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}")


@transaction.atomic
def create(
    user: User,
    name: str,
    reference: str,
    description: str = "",
    virtual_clusters: Sequence[str] = (),
    managed_by: str = "",
    **details: str,
) -> Image:
    """Create an image for these virtual clusters, or for every user; with `managed_by` for that
    virtual cluster alone, whose VC admins may do this. `details`: framework, cuda_version,
    min_driver. Raises Conflict `name_taken`, SkepError `name_invalid`, `reference_invalid`,
    `driver_invalid`, NotFound, Forbidden."""
    vc = tenancy.managing(user, managed_by)
    _check_name(user, name, vc)
    image = Image(name=name, reference=_checked(reference), description=description)
    image.created_by, image.managed_by = user, vc
    _describe(image, details)
    _save(image)
    image.virtual_clusters.set([vc] if vc else _found(virtual_clusters))
    _record(user, image, "created")
    audit.record("image.create", "image", image.pk, name, vc=vc, after=_audited(image))
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
    **details: str,
) -> Image:
    """Change an image; jobs keep the reference that they were submitted with. Raises what `create`
    does."""
    check_may_change(user, image)
    before = _audited(image)
    if name is not None and name != image.name:
        _check_name(user, name, image.managed_by)
        image.name = name
    if reference is not None and reference != image.reference:
        image.reference = _checked(reference)
        # What its registry said was about another image.
        image.digest, image.size, image.problem, image.inspected_at = "", None, "", None
    if description is not None:
        image.description = description
    _describe(image, details)
    _save(image)
    if virtual_clusters is not None and image.managed_by is None:
        image.virtual_clusters.set(_found(virtual_clusters))
    _record(user, image, "changed")
    after = _audited(image)
    vc = image.managed_by
    audit.record("image.update", "image", image.pk, image.name, vc=vc, before=before, after=after)
    return image


@transaction.atomic
def delete(user: User, image: Image) -> None:
    """Delete an image of the catalogue. Raises Forbidden."""
    check_may_change(user, image)
    _record(user, image, "deleted")
    vc = image.managed_by
    audit.record("image.delete", "image", image.pk, image.name, vc=vc, before=_audited(image))
    image.delete()


def check_may_change(user: User, image: Image) -> None:
    """Raises Forbidden where the user is no admin, and no VC admin of what manages the image."""
    tenancy.check_manages(user, image.managed_by, "image")


def _describe(image: Image, details: Mapping[str, str]) -> None:
    for name, value in details.items():
        setattr(image, name, value.strip())
    if image.min_driver and not DRIVER.fullmatch(image.min_driver):
        message = 'A driver version looks like "570.26" or "570.124.06".'
        raise SkepError(message, code="driver_invalid", field="min_driver")


def _audited(image: Image) -> dict[str, Any]:
    return {
        "name": image.name,
        "reference": image.reference,
        "description": image.description,
        "framework": image.framework,
        "cuda_version": image.cuda_version,
        "min_driver": image.min_driver,
        "virtual_clusters": sorted(image.virtual_clusters.values_list("name", flat=True)),
    }


def _check_name(user: User, name: str, vc: VirtualCluster | None) -> None:
    """What VC admins name begins with the name of their virtual cluster, so that a name that is
    taken says nothing of images of others, and no team takes the names that all would look for."""
    try:
        NAME(name)
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=name[:100]) from None
    if vc is not None and not tenancy.is_admin(user) and not name.startswith(f"{vc.name}-"):
        message = f"The name of an image that VC admins of {vc.name} add begins with {vc.name}-"
        raise SkepError(message, code="name_invalid", name=name)


def _checked(reference: str) -> str:
    if not can_be_pulled(reference):
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
