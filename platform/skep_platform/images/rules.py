"""Which images the jobs of a virtual cluster may use: patterns, and whether by the tag `latest`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from skep_agent.image_patterns import (
    MAX_PATTERNS,
    MAX_STARS,
    allows,
    is_latest,
    is_pattern,
    matching,
)
from skep_limits import is_image_reference
from skep_platform.audit import services as audit
from skep_platform.core.compiled import Among, Compiled
from skep_platform.core.errors import SkepError
from skep_platform.images.models import ImageRule
from skep_platform.tenancy.limits import limit
from skep_platform.tenancy.models import VirtualCluster

__all__ = ["allows", "check", "is_latest", "of", "of_many", "replace"]


def of(vc: VirtualCluster) -> list[str]:
    """Return the patterns of a virtual cluster; without any, its jobs may use every image."""
    if vc.preloaded is not None:
        return list(vc.preloaded.image_patterns)
    return list(
        ImageRule.objects.filter(vc=vc).order_by("pattern").values_list("pattern", flat=True)
    )


def of_many(vcs: Collection[UUID]) -> dict[UUID, list[str]]:
    """Return the patterns of several virtual clusters, without those that have none. One query."""
    found: dict[UUID, list[str]] = defaultdict(list)
    for vc, pattern in _OF_MANY.rows(vcs=list(vcs)):
        found[vc].append(pattern)
    return dict(found)


_OF_MANY = Compiled(
    lambda: ImageRule.objects.filter(Among("vc", "vcs")).order_by("pattern"), "vc_id", "pattern"
)


def check(vc: VirtualCluster, reference: str) -> dict[str, Any]:
    """Return whether jobs of a virtual cluster may use an image, the patterns that match, and why
    not. Raises SkepError `reference_invalid`."""
    if not is_image_reference(reference):
        message = 'An image reference looks like "pytorch/pytorch:2.9".'
        raise SkepError(message, code="reference_invalid", reference=reference[:100])
    patterns, latest = of(vc), bool(limit(vc, "latest_images"))
    found = list(matching(patterns, reference))
    reason = ""
    if patterns and not found:
        reason = "No pattern matches."
    elif not latest and is_latest(reference):
        reason = "The tag latest is not allowed: give another tag, or a digest."
    return {"image": reference, "allowed": not reason, "patterns": found, "reason": reason}


@transaction.atomic
def replace(vc: VirtualCluster, patterns: Sequence[str]) -> list[str]:
    """Replace all patterns of a virtual cluster, for jobs that are submitted from now on. Raises
    SkepError `image_pattern_invalid` and `too_many_image_patterns`."""
    wanted = sorted(set(patterns))
    if len(wanted) > MAX_PATTERNS:
        message = f"A virtual cluster has at most {MAX_PATTERNS} patterns for images."
        details = {"now": len(wanted), "most": MAX_PATTERNS}
        raise SkepError(message, code="too_many_image_patterns", **details)
    for pattern in wanted:
        if not is_pattern(pattern):
            message = (
                f"{pattern[:80]!r} is not a pattern for images. It looks like pytorch/*, "
                f"registry.example.org/vision/*:1.* or NAME@sha256:…, with at most {MAX_STARS} "
                "asterisks."
            )
            raise SkepError(message, code="image_pattern_invalid", pattern=pattern[:100])
    VirtualCluster.objects.select_for_update().get(pk=vc.pk)
    before = of(vc)
    ImageRule.objects.filter(vc=vc).delete()
    ImageRule.objects.bulk_create(ImageRule(vc=vc, pattern=pattern) for pattern in wanted)
    audit.record(
        "vc.image_rules.update",
        "vc",
        vc.pk,
        vc.name,
        vc=vc,
        before={"patterns": before},
        after={"patterns": wanted},
    )
    return wanted
