"""Secrets in logs are covered, wherever the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_agent.core.mask import PART_BYTES, Mask

few = st.text("ab", max_size=6)
secrets = st.lists(few, max_size=4)
cuts = st.lists(st.text("abc\n", max_size=9).map(str.encode), max_size=12)


def masked(pieces: list[bytes], *secrets: str) -> bytes:
    mask = Mask(secrets)
    return b"".join([*map(mask.feed, pieces), mask.flush()])


def by_hand(data: bytes, secrets: list[str]) -> bytes:
    """Every byte of every occurrence, by looking at each place."""
    covered = bytearray(data)
    for secret in filter(None, map(str.encode, secrets)):
        for at in range(len(data)):
            if data.startswith(secret, at):
                covered[at : at + len(secret)] = b"*" * len(secret)
    return bytes(covered)


@given(secrets, cuts)
def test_pieces_give_what_the_whole_would(secrets: list[str], pieces: list[bytes]) -> None:
    assert masked(pieces, *secrets) == by_hand(b"".join(pieces), secrets)


@given(secrets, cuts)
def test_only_what_may_begin_a_secret_is_held_back(secrets: list[str], pieces: list[bytes]) -> None:
    mask, came, went = Mask(secrets), b"", 0
    for piece in pieces:
        came += piece
        went += len(mask.feed(piece))
        held = came[went:]
        longer = [secret for secret in map(str.encode, secrets) if len(secret) > len(held)]
        assert not held or any(secret.startswith(held) for secret in longer)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"key=s3cret\n"], b"key=******\n"),
        ([b"key=s3", b"cret\n"], b"key=******\n"),
        ([b"s3", b"s3cre", b"t"], b"s3******"),
        ([b"s3cre"], b"s3cre"),
        ([b"s3crets3cret"], b"************"),
    ],
)
def test_a_secret_is_covered(pieces: list[bytes], expected: bytes) -> None:
    assert masked(pieces, "s3cret") == expected


def test_a_long_secret_is_covered_whole_and_holds_back_little() -> None:
    secret = "".join(f"{n:04x}\n" for n in range(5000))
    data = f"before {secret} after".encode()
    assert masked([data[at : at + 999] for at in range(0, len(data), 999)], secret) == (
        b"before " + b"*" * len(secret) + b" after"
    )
    mask = Mask([secret])
    assert len(mask.feed(secret.encode()[:2500])) > 2500 - PART_BYTES


def test_without_secrets_nothing_is_touched() -> None:
    data = b"x" * 10
    assert Mask([]).feed(data) is data
