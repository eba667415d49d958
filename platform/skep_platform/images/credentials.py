"""StoredLogins for registries, of users and of virtual clusters.

A job whose file has none for its image uses those of its owner, then those of its virtual cluster.
Passwords are encrypted in the database, are sent to nodes with the tasks that need them, and are
returned by no other function than `StoredLogins.login`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from skep_agent.registry_policy import (
    DOCKER_HUB,
    DOCKER_HUB_NAMES,
    RegistryPolicy,
    RegistryRefused,
    registry_of,
)
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import encryption
from skep_platform.core.bulk import loaded
from skep_platform.core.compiled import Among, Compiled
from skep_platform.core.encryption import DecryptionFailed
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.images.models import RegistryCredential
from skep_platform.tenancy.models import VirtualCluster

MAX_CREDENTIALS = 50  # of one user, or of one virtual cluster
MAX_PASSWORD = 8 * 1024  # characters; the longest in use are keys of service accounts, about 2,400
REGISTRY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
    r"|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?"
)
log = structlog.get_logger(__name__)
Holder = User | VirtualCluster


def of(holder: Holder) -> QuerySet[RegistryCredential]:
    """Return the credentials of a user, or of a virtual cluster."""
    return RegistryCredential.objects.filter(**_held_by(holder)).order_by("registry")


def registry_name(text: str) -> str:
    """Return the name of a registry as image references have it: without a scheme and a path, in
    lower case, and one name for Docker Hub. Raises SkepError `registry_invalid`."""
    name = text.strip().lower()
    name = name.removeprefix("https://").removeprefix("http://").partition("/")[0]
    if name in DOCKER_HUB_NAMES:
        return DOCKER_HUB
    # A first part without "." or ":" is no registry in a reference, but for localhost.
    named = name == "localhost" or "." in name or ":" in name
    if len(name) > 255 or not REGISTRY.fullmatch(name) or not named:
        message = 'A registry looks like "registry.example.org" or "registry.example.org:5000".'
        raise SkepError(message, code="registry_invalid", registry=name[:100])
    return name


@transaction.atomic
def store(holder: Holder, registry: str, username: str, password: str) -> RegistryCredential:
    """Store credentials, or replace those for the same registry. The next start of a task uses
    them.

    Raises SkepError `registry_invalid`, `registry_not_allowed` and `credential_invalid`, Conflict
    `too_many_credentials`."""
    name = registry_name(registry)
    _check(name, username, password)
    # One writer at a time for each holder, so that the count below holds.
    _lock(holder)
    row = of(holder).filter(registry=name).first()
    before = {"username": row.username} if row else None
    if row is None:
        if (count := of(holder).count()) >= MAX_CREDENTIALS:
            message = f"There are {count} credentials already; remove one of them first."
            raise Conflict(message, code="too_many_credentials", now=count, most=MAX_CREDENTIALS)
        row = RegistryCredential(registry=name, **_held_by(holder))
    row.username = username
    row.sealed = encryption.seal(json.dumps({"registry": name, "password": password}).encode())
    row.save()
    _audit("registry_credential.set", holder, row, before=before, after={"username": username})
    return row


@transaction.atomic
def remove(holder: Holder, registry: str) -> None:
    """Remove credentials; removing those that are not there changes nothing. Tasks that run keep
    running. Raises SkepError `registry_invalid`."""
    row = of(holder).filter(registry=registry_name(registry)).first()
    if row is not None:
        _audit("registry_credential.remove", holder, row, before={"username": row.username})
        row.delete()


@dataclass(frozen=True, slots=True)
class StoredLogins:
    """The credentials of some users and virtual clusters, sealed until one is needed."""

    rows: Mapping[tuple[object, str], RegistryCredential] = field(default_factory=dict, repr=False)

    def login(self, owner_id: int, vc_id: UUID, reference: str) -> dict[str, str]:
        """Return username and password for an image: the owner's, else those of the virtual
        cluster; empty where neither has any, or where no key opens them."""
        registry = registry_of(reference)
        registry = DOCKER_HUB if registry in DOCKER_HUB_NAMES else registry
        for holder in (owner_id, vc_id):
            if row := self.rows.get((holder, registry)):
                password = _opened(row)
                return {"username": row.username, "password": password} if password else {}
        return {}


def read(owners: Collection[int], virtual_clusters: Collection[UUID]) -> StoredLogins:
    """Return the credentials of these users and virtual clusters. One query."""
    found = _HELD_BY.rows(users=list(owners), vcs=list(virtual_clusters))
    rows = [loaded(RegistryCredential, _COLUMNS, values) for values in found]
    return StoredLogins({(row.user_id or row.vc_id, row.registry): row for row in rows})


_COLUMNS = tuple(field.attname for field in RegistryCredential._meta.concrete_fields)
_HELD_BY = Compiled(
    lambda: RegistryCredential.objects.filter(Q(Among("user", "users")) | Q(Among("vc", "vcs"))),
    *_COLUMNS,
)


def _opened(row: RegistryCredential) -> str:
    try:
        known = json.loads(encryption.open(row.sealed))
    except DecryptionFailed as error:
        log.error("registry_credential_locked", registry=row.registry, error=error.message)
        return ""
    return str(known["password"]) if known["registry"] == row.registry else ""


def _check(registry: str, username: str, password: str) -> None:
    try:
        RegistryPolicy.parsed(settings.SKEP_REGISTRIES).check_name(f"{registry}/any")
    except RegistryRefused as error:
        raise SkepError(str(error), code="registry_not_allowed", registry=registry) from None
    # A colon ends the user name in HTTP's basic authentication (RFC 7617).
    if not username or ":" in username or not username.isprintable():
        message = "A user name has at least one character, and neither a colon nor line ends."
        raise SkepError(message, code="credential_invalid", field="username")
    if not password or len(password) > MAX_PASSWORD or "\0" in password:
        message = f"A password or token has 1 to {MAX_PASSWORD} characters."
        raise SkepError(message, code="credential_invalid", field="password", most=MAX_PASSWORD)


def _held_by(holder: Holder) -> dict[str, Holder]:
    return {"user" if isinstance(holder, User) else "vc": holder}


def _lock(holder: Holder) -> None:
    if isinstance(holder, User):
        User.objects.select_for_update().get(pk=holder.pk)
    else:
        VirtualCluster.objects.select_for_update().get(pk=holder.pk)


def _audit(action: str, holder: Holder, row: RegistryCredential, **changes: Any) -> None:
    vc = holder if isinstance(holder, VirtualCluster) else None
    name = holder.name if isinstance(holder, VirtualCluster) else holder.get_username()
    audit.record(
        action, "registry_credential", row.pk, f"{row.registry} of {name}", vc=vc, **changes
    )
