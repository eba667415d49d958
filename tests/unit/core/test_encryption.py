"""What is sealed is opened with the keys that sealed it, and by nothing else."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet
from pytest_django import Settings

from skep_platform.core import encryption

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def test_what_was_sealed_is_opened() -> None:
    sealed = encryption.seal(b"S3cret")
    assert b"S3cret" not in sealed
    assert encryption.open(sealed) == encryption.open(memoryview(sealed)) == b"S3cret"


def test_a_new_key_seals_and_the_old_ones_still_open(settings: Settings) -> None:
    derived = encryption.seal(b"first")
    settings.SKEP_SECRETS_KEYS = [OLD]
    sealed = encryption.seal(b"second")
    settings.SKEP_SECRETS_KEYS = [NEW, OLD]
    assert (encryption.open(derived), encryption.open(sealed)) == (b"first", b"second")
    assert Fernet(NEW).decrypt(encryption.seal(b"third")) == b"third"


def test_without_its_key_nothing_is_reported(settings: Settings) -> None:
    settings.SKEP_SECRETS_KEYS = [OLD]
    sealed = encryption.seal(b"S3cret")
    settings.SKEP_SECRETS_KEYS = [NEW]
    with pytest.raises(encryption.DecryptionFailed):
        encryption.open(sealed)


def test_another_secret_key_opens_nothing(settings: Settings) -> None:
    sealed = encryption.seal(b"S3cret")
    settings.SECRET_KEY = "another-" * 8
    with pytest.raises(encryption.DecryptionFailed):
        encryption.open(sealed)


def test_a_changed_byte_is_found() -> None:
    sealed = bytearray(encryption.seal(b"S3cret"))
    sealed[20] ^= 1
    with pytest.raises(encryption.DecryptionFailed):
        encryption.open(bytes(sealed))
