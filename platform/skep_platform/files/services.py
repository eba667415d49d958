"""All writes to archives."""

from __future__ import annotations

import hashlib
import tempfile
from datetime import timedelta
from typing import IO

from django.apps import apps
from django.db.models import Exists, OuterRef, Sum
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.core.errors import SkepError
from skep_platform.core.parse_pool import archives
from skep_platform.files import storing
from skep_platform.files.contents import MAX_PACKED, STEP, Contents
from skep_platform.files.models import Archive

MAX_PER_OWNER = 20 * 1024**3  # bytes
KEPT = timedelta(days=30)  # without use
# What no row tells of: an upload that is just coming, or what is left of one that was cut.
ORPHANED = timedelta(days=1)


class TooLarge(SkepError):
    status = 413
    code = "archive_too_large"


def upload(user: User, stream: IO[bytes]) -> Archive:
    """Store a gzipped tar file. Raises TooLarge, ArchiveRefused, and SkepError `files_quota`."""
    with tempfile.TemporaryFile() as copy:
        sha256, size = _copied(stream, copy)
        copy.seek(0)
        contents = Contents(**archives.call("archive", user=user.pk, descriptor=copy.fileno()))
        _check_quota(user, sha256, size)
        storing.store(sha256, copy)
        archive = _row(user, sha256, size, contents)
        storing.store(sha256, copy)  # it was tidied away just before the row told of it
    return archive


def tidy() -> None:
    """Forget archives that were not used for long; delete the bytes that nobody may use."""
    now = timezone.now()
    uses = apps.get_model("jobs", "JobFiles")._default_manager  # of an app above this one
    needed = uses.filter(archive=OuterRef("pk"), job__finished_at=None)
    unused = Archive.objects.filter(~Exists(needed), used_at__lt=now - KEPT)
    uses.filter(archive__in=unused).delete()
    unused.delete()
    for name in storing.older_than(now - ORPHANED):
        if not Archive.objects.filter(sha256=name).exists():
            storing.delete(name)


def _copied(stream: IO[bytes], copy: IO[bytes]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while data := stream.read(STEP):
        size += len(data)
        if size > MAX_PACKED:
            most = MAX_PACKED // 1024**2
            raise TooLarge(f"An archive has at most {most} MiB.", most_bytes=MAX_PACKED)
        digest.update(data)
        copy.write(data)
    return digest.hexdigest(), size


def _check_quota(user: User, sha256: str, size: int) -> None:
    others = Archive.objects.filter(owner=user).exclude(sha256=sha256)
    used = others.aggregate(total=Sum("size"))["total"] or 0
    if used + size > MAX_PER_OWNER:
        message = f"You have {used} bytes of working files; at most {MAX_PER_OWNER} are kept."
        raise SkepError(message, code="files_quota", used=used, most=MAX_PER_OWNER)


def _row(user: User, sha256: str, size: int, contents: Contents) -> Archive:
    known = {"size": size, "unpacked_size": contents.unpacked_size, "files": contents.files}
    row, _ = Archive.objects.update_or_create(
        owner=user, sha256=sha256, defaults={"used_at": timezone.now()}, create_defaults=known
    )
    return row
