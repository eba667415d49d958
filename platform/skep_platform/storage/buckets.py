"""Storages in buckets of S3: where they may lie, and their keys.

The keys are encrypted in the database together with the place that they are for: they open no other
bucket, whoever changes the row. They go to the nodes of the jobs that mount the storage, and
nowhere else. The server itself connects to no store.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from skep_limits import is_bucket, is_closed_address, is_endpoint, is_region, is_storage_path
from skep_platform.core import encryption
from skep_platform.core.encryption import DecryptionFailed
from skep_platform.core.errors import SkepError
from skep_platform.storage.models import Storage

REQUIRED = frozenset({"endpoint", "bucket"})
OPTIONAL = frozenset({"region", "prefix", "path_style"})
MAX_KEY = 512  # characters


def check(storage: Storage) -> None:
    """Raises SkepError `storage_data_invalid`, `storage_endpoint_closed`, `storage_home_shared` and
    `mount_option_invalid`."""
    data = storage.data
    endpoint, bucket = data["endpoint"], data["bucket"]
    if not is_endpoint(endpoint):
        message = f"{endpoint[:100]!r} is not the address of a store, like https://s3.example.org."
        raise _invalid(message, "endpoint")
    if _is_closed(endpoint):
        message = f"{endpoint} belongs to the machines themselves, and is no store."
        raise SkepError(message, code="storage_endpoint_closed", endpoint=endpoint)
    if not is_bucket(bucket):
        raise _invalid(f"{bucket[:100]!r} is not the name of a bucket.", "bucket")
    if (region := data.get("region")) and not is_region(region):
        raise _invalid(f"{region[:40]!r} is not the name of a region.", "region")
    if (prefix := data.get("prefix")) and not is_storage_path(f"/{prefix}"):
        message = (
            f"{prefix[:100]!r} is not a folder of a bucket. It has no '.', no '..', no '/' at its "
            "ends, and no characters but letters, digits and any of _@+=~.-"
        )
        raise _invalid(message, "prefix")
    if data.get("path_style", "true") not in ("true", "false"):
        raise _invalid("path_style is true or false.", "path_style")
    if storage.mount_options:
        message = "A bucket has no mount options: read-only is a field of its own."
        raise SkepError(message, code="mount_option_invalid", option=storage.mount_options[0])
    if storage.home:
        message = (
            "A bucket cannot be the home of users: all of it would be copied for each task. Use "
            "NFS or a folder of the nodes."
        )
        raise SkepError(message, code="storage_home_shared")


def set_keys(storage: Storage, access_key: str, secret_key: str) -> None:
    """Seal the keys of a bucket, or forget them where both are empty. Raises SkepError
    `storage_keys_invalid`."""
    if not access_key and not secret_key:
        storage.sealed = None
        return
    for text in (access_key, secret_key):
        if not text or len(text) > MAX_KEY or not text.isascii() or not text.isprintable():
            message = (
                "A bucket has both an access key and a secret key, or neither; each has at most "
                f"{MAX_KEY} plain characters."
            )
            raise SkepError(message, code="storage_keys_invalid", most=MAX_KEY)
    plain = {"place": storage.host, "access_key": access_key, "secret_key": secret_key}
    storage.sealed = encryption.seal(json.dumps(plain).encode())


def check_keys_fit(storage: Storage, before: str) -> None:
    """Refuse another place, which is not `before` any more, with the keys of the last one. Raises
    SkepError `storage_keys_needed`."""
    if storage.sealed is not None and storage.host != before:
        message = "Give both keys again with another endpoint or bucket: the old ones stay private."
        raise SkepError(message, code="storage_keys_needed")


def keys(storage: Storage) -> dict[str, str]:
    """Return `access_key` and `secret_key` of a bucket; empty where it needs none. Raises
    DecryptionFailed where no key of the server opens them, or where they are for another place."""
    if storage.sealed is None:
        return {}
    known: dict[str, Any] = json.loads(encryption.open(storage.sealed))
    if known.pop("place") != storage.host:
        raise DecryptionFailed("The keys of this storage are for another place: set them again.")
    return {name: str(value) for name, value in known.items()}


def is_same(one: Storage, other: Storage) -> bool:
    """Return whether two storages are in one bucket, however their endpoints are written."""
    return _bucket_of(one) == _bucket_of(other)


def is_in(storage: Storage, endpoints: Collection[str]) -> bool:
    """Return whether a bucket lies in one of these stores. Scheme and port count: what is sent to
    another one may not be encrypted, or be another program."""
    return storage.data["endpoint"].rstrip("/").lower() in endpoints


def _bucket_of(storage: Storage) -> tuple[str, int | None, str]:
    found = urlsplit(storage.data["endpoint"])
    port = None if found.port in (80, 443) else found.port
    return (found.hostname or "").lower(), port, storage.data["bucket"]


def _is_closed(endpoint: str) -> bool:
    """Return whether an address is one of clouds for their machines, or none of a single host.
    Private ones are allowed: stores often are on premises, and only admins name them."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return is_closed_address(host)
    except ValueError:
        return host == "metadata.google.internal" or host.endswith(".metadata.google.internal")


def _invalid(message: str, field: str) -> SkepError:
    return SkepError(message, code="storage_data_invalid", field=field)
