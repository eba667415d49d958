"""All writes to archives."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import IO

from django.core.files import File
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from skep_limits import MAX_ARCHIVE_BYTES
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import ports
from skep_platform.core.bulk import deletion_time, fetch
from skep_platform.core.errors import SkepError
from skep_platform.core.parse_pool import archives
from skep_platform.files import queries
from skep_platform.files.contents import STEP, Contents
from skep_platform.files.models import Archive

MAX_PER_OWNER = 20 * 1024**3  # bytes
KEPT = timedelta(days=30)  # without use
# Bytes without a row are those of an upload that is under way, or of one that was cut.
ORPHANED = timedelta(days=1)
AT_ONCE = 500  # archives that are looked at or deleted together
BUDGET_S = 30.0  # for deleting rows, in one run
BYTES = 0xF11E  # of advisory locks, with the hash of the bytes
FOLDERS = [f"{number:02x}" for number in range(256)]


class TooLarge(SkepError):
    """The archive has more bytes than are accepted."""

    status = 413
    code = "archive_too_large"


def upload(user: User, stream: IO[bytes]) -> Archive:
    """Store a gzipped tar file. Raises TooLarge, ArchiveRefused, and SkepError `files_quota`."""
    with tempfile.TemporaryFile() as copy:
        sha256, size = _copied(stream, copy)
        copy.seek(0)
        contents = Contents(**archives.call("archive", user=user.pk, descriptor=copy.fileno()))
        _check_quota(user, sha256, size)
        store(sha256, copy)
        with transaction.atomic():
            _lock_bytes(sha256)
            archive = _row(user, sha256, size, contents)
            audit.record("file.upload", "file", sha256, "", bytes=size, files=contents.files)
        store(sha256, copy)  # `tidy` may have deleted the bytes before the row was there
    return archive


def tidy() -> None:
    """Delete archives that were not used for long, and bytes that belong to no archive."""
    now, until = deletion_time(), time.monotonic() + BUDGET_S
    while _delete_unused(now - KEPT) == AT_ONCE and time.monotonic() < until:
        pass
    stored = _stored_before(now - ORPHANED)
    while names := set(islice(stored, AT_ONCE)):
        known = Archive.objects.filter(sha256__in=names).values_list("sha256", flat=True)
        for name in sorted(names.difference(known)):
            _delete_left_over(name)


@transaction.atomic
def _delete_unused(before: datetime) -> int:
    """Delete some archives that were not used since; return how many. Locked, as a job that is
    submitted meanwhile may use one of them again."""
    rows = Archive.objects.filter(used_at__lt=before).exclude(pk__in=ports.archives_in_use.call())
    ids = [row.pk for row in rows.only("pk").select_for_update(skip_locked=True)[:AT_ONCE]]
    unused = Archive.objects.filter(pk__in=ids)
    ports.forget_archives.call(unused)
    unused.delete()
    return len(ids)


@transaction.atomic
def _delete_left_over(sha256: str) -> None:
    _lock_bytes(sha256)
    if not Archive.objects.filter(sha256=sha256).exists():
        delete_stored(sha256)


def _lock_bytes(sha256: str) -> None:
    """Until the transaction ends, no other one decides whether these bytes belong to an archive."""
    fetch("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [BYTES, sha256])


def store(sha256: str, archive: IO[bytes]) -> None:
    """Store the bytes of an archive under their hash, once however often they are uploaded."""
    if queries.is_stored(sha256):
        return
    archive.seek(0)
    path = queries.path_of(sha256)
    name = queries.storage().save(path, File(archive))
    if name != path:  # another upload of the same bytes was faster
        queries.storage().delete(name)


def delete_stored(sha256: str) -> None:
    """Delete the bytes with this hash, if there are any."""
    queries.storage().delete(queries.path_of(sha256))


def _stored_before(moment: datetime) -> Iterator[str]:
    """Yield the hashes of all bytes that were stored before this moment."""
    storage = queries.storage()
    for folder in FOLDERS:
        try:
            names = storage.listdir(folder)[1]
        except FileNotFoundError:
            continue
        for name in names:
            if storage.get_modified_time(f"{folder}/{name}") < moment:
                yield name


def _copied(stream: IO[bytes], copy: IO[bytes]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while data := stream.read(STEP):
        size += len(data)
        if size > MAX_ARCHIVE_BYTES:
            most = MAX_ARCHIVE_BYTES // 1024**2
            raise TooLarge(f"An archive has at most {most} MiB.", most_bytes=MAX_ARCHIVE_BYTES)
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
