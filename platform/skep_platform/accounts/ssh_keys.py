"""Public ssh keys of users, with which they log in to the tasks of jobs that ask for them.

A job asks by `userssh: {type: system}` of its ssh plugin: then the keys of its owner are among
those that may log in to its tasks. Only the type and the key itself are stored: options of a line
could run commands, and a comment is its writer's business.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Collection
from uuid import UUID

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from django.db import transaction
from django.db.models import QuerySet

from skep_platform.accounts.models import SshKey, User
from skep_platform.audit import services as audit
from skep_platform.core.errors import Conflict, NotFound, SkepError

MAX_KEYS = 20  # of one user
MAX_TEXT = 4096  # characters of a line; an RSA key of 16,384 bits has some 2,800
MIN_RSA, MAX_RSA = 2048, 16_384  # bits
TYPES = (
    *("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"),
    *("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
)
HARDWARE = ("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")


def of(user: User) -> QuerySet[SshKey]:
    """Return the keys of a user."""
    return SshKey.objects.filter(user=user)


def of_many(users: Collection[int]) -> dict[int, list[str]]:
    """Return the keys of users as lines of `authorized_keys`. One query, none for no users."""
    found: dict[int, list[str]] = defaultdict(list)
    rows = SshKey.objects.filter(user__in=users).order_by("pk") if users else ()
    for row in rows:
        found[row.user_id].append(row.public_key)
    return found


@transaction.atomic
def add(user: User, name: str, text: str) -> SshKey:
    """Store a key; tasks that start from now on have it. Raises SkepError `ssh_key_invalid`,
    `ssh_key_private` and `ssh_key_weak`, Conflict `ssh_key_known`, `ssh_key_name_taken` and
    `too_many_ssh_keys`."""
    line = checked(text)
    # One writer at a time for each user, so that the count below holds.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    known = list(of(user))
    if any(one.public_key == line for one in known):
        raise Conflict("You have this key already.", code="ssh_key_known")
    if any(one.name == name for one in known):
        message = f"You have a key named {name}. Choose another name."
        raise Conflict(message, code="ssh_key_name_taken", name=name)
    if len(known) >= MAX_KEYS:
        message = f"You have {MAX_KEYS} keys, which is the most. Remove one first."
        raise Conflict(message, code="too_many_ssh_keys", most=MAX_KEYS)
    row = SshKey.objects.create(
        user=user, name=name, public_key=line, fingerprint=fingerprint(line)
    )
    after = {"fingerprint": row.fingerprint}
    audit.record("ssh_key.add", "ssh_key", row.pk, name, after=after)
    return row


@transaction.atomic
def remove(user: User, key_id: UUID) -> None:
    """Remove a key; tasks that run keep it. Raises NotFound."""
    row = of(user).filter(pk=key_id).first()
    if row is None:
        raise NotFound("You have no such key.")
    before = {"fingerprint": row.fingerprint}
    audit.record("ssh_key.remove", "ssh_key", row.pk, row.name, before=before)
    row.delete()


def checked(text: str) -> str:
    """Return type and key of a line as `ssh-keygen` writes it into a file .pub. Raises SkepError
    `ssh_key_invalid`, `ssh_key_private` and `ssh_key_weak`; none of them repeats the text."""
    if "PRIVATE KEY" in text:
        message = (
            "This is a private key, which stays with you: it was not stored. Paste the line of the "
            "file that ends in .pub."
        )
        raise SkepError(message, code="ssh_key_private", field="public_key")
    words = text.split()
    plain = len(text) <= MAX_TEXT and len(text.strip().splitlines()) == 1 and len(words) >= 2
    if not plain or not all(word.isascii() for word in words[:2]):
        raise _invalid()
    kind, encoded = words[:2]
    try:
        raw = base64.b64decode(encoded, validate=True)
        if kind in HARDWARE:  # on a security key; its format is that of the others and one word
            _check_hardware(kind, raw)
        elif kind in TYPES:
            _check(load_ssh_public_key(f"{kind} {encoded}".encode()))
        else:
            raise _invalid()
    except (ValueError, UnsupportedAlgorithm):
        raise _invalid() from None
    return f"{kind} {encoded}"


def fingerprint(line: str) -> str:
    """Return what `ssh-keygen -l` shows of a key."""
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _check(key: object) -> None:
    if isinstance(key, RSAPublicKey):
        if not MIN_RSA <= key.key_size <= MAX_RSA:
            message = (
                f"The RSA key has {key.key_size} bits; it needs {MIN_RSA} to {MAX_RSA}. Make "
                "another one: ssh-keygen -t ed25519."
            )
            raise SkepError(message, code="ssh_key_weak", field="public_key")
    elif not isinstance(key, Ed25519PublicKey | EllipticCurvePublicKey):
        raise _invalid()


def _check_hardware(kind: str, raw: bytes) -> None:
    """Check that it holds its own type first. Raises ValueError."""
    named = len(kind).to_bytes(4, "big") + kind.encode()
    if not raw.startswith(named) or not 64 <= len(raw) <= 512:
        raise ValueError("not a key of this type")


def _invalid() -> SkepError:
    message = (
        "This is no public ssh key. Paste one line such as the file id_ed25519.pub has: a type "
        "(ssh-ed25519, ecdsa-sha2-nistp256, ssh-rsa, or that of a security key) and the key, "
        "without options before them."
    )
    return SkepError(message, code="ssh_key_invalid", field="public_key")
