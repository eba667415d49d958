"""Encryption at rest of the secrets of jobs; the keys are never in the database."""

from __future__ import annotations

import base64
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from skep_platform.core.errors import SkepError

PURPOSE = b"skep.vault.1"  # part of what is stored: never change it


class DecryptionFailed(SkepError):
    """No key that this server has opens what is sealed."""

    status = 500
    code = "vault_locked"


def seal(plain: bytes) -> bytes:
    """Encrypt and sign with the newest key."""
    return _keys(tuple(settings.SKEP_SECRETS_KEYS), settings.SECRET_KEY).encrypt(plain)


def open(sealed: bytes | memoryview) -> bytes:
    """Return what `seal` was given. Raises DecryptionFailed where no key fits, or a byte was
    changed."""
    try:
        keys = _keys(tuple(settings.SKEP_SECRETS_KEYS), settings.SECRET_KEY)
        return keys.decrypt(bytes(sealed))
    except InvalidToken:
        message = "No key opens the secrets of this job: put the key they were sealed with back."
        raise DecryptionFailed(message) from None


def derive(label: str) -> bytes:
    """Return 32 bytes that only the newest key makes, for a label the same each time."""
    newest = next(iter(settings.SKEP_SECRETS_KEYS), settings.SECRET_KEY)
    info = b"skep.vault.derived.1." + label.encode()
    return HKDF(SHA256(), length=32, salt=None, info=info).derive(newest.encode())


@lru_cache(maxsize=8)
def _keys(given: tuple[str, ...], secret_key: str) -> MultiFernet:
    """The key made from the secret key always opens, so that setting keys locks nothing."""
    return MultiFernet([*map(Fernet, given), Fernet(_derived(secret_key))])


def _derived(secret_key: str) -> bytes:
    made = HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret_key.encode())
    return base64.urlsafe_b64encode(made)
