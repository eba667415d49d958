"""Which backups were made. The platform makes none itself: `skep backup create` of one box, or
whatever backs up PostgreSQL, records here that it did."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from skep_platform import __version__
from skep_platform.audit import services as audit
from skep_platform.operations.models import Backup

MOST = 400  # kept


def recorded() -> QuerySet[Backup]:
    return Backup.objects.all()


def last() -> Backup | None:
    """Return the newest backup that was recorded."""
    return Backup.objects.order_by("-at").first()


@transaction.atomic
def record(place: str, bytes: int | None = None) -> Backup:
    """Record that a backup was made now."""
    made = Backup.objects.create(at=timezone.now(), place=place, bytes=bytes, version=__version__)
    audit.record("backup.record", "backup", made.pk, place[:255], place=place, bytes=bytes)
    return made


def forget_old() -> int:
    """Keep the newest MOST of them; return how many were deleted."""
    kept = Backup.objects.order_by("-at").values("pk")[:MOST]
    return Backup.objects.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()[0]
