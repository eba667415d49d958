"""Secrets in logs are covered, wherever the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_agent.core.mask import PART_BYTES, Automaton, Mask

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


# --- finding S3: whatever the secrets and the stream, each byte costs the same

HOSTILE: dict[str, tuple[list[str], bytes]] = {
    "what was done: nested runs of one letter": (["a" * n for n in range(901, 1001)], b"a"),
    "a run that never becomes a secret": (["a" * 900 + "b"], b"a"),
    "periodic secrets": (["ab" * n for n in range(400, 500)], b"ab"),
    "one that ends just before it is whole": (
        ["a" * 1000 + "b", "a" * 999 + "c"],
        b"a" * 999 + b"d",
    ),
    "suffixes of one another": (["b" * 50 + "a" * n for n in range(200)], b"b" * 50 + b"a" * 199),
    "as many and as long as there may be": ([f"{n:0131d}" for n in range(2000)], b"0" * 130 + b"1"),
    "first bytes that are everywhere": (["aaaab", "aaba", "abaa"], b"aaaa"),
}


@pytest.mark.parametrize(("masks", "unit"), HOSTILE.values(), ids=HOSTILE)
def test_finding_s3_each_byte_of_a_hostile_log_takes_at_most_two_steps(
    masks: list[str], unit: bytes
) -> None:
    """A step is one state of the automaton; nothing else grows with the secrets."""
    automaton, steps = Automaton(masks), []
    for size in (1 << 15, 1 << 16, 1 << 17):
        mask = Mask(automaton)
        data = (unit * (size // len(unit) + 1))[:size]
        pieces = [data[at : at + 65536] for at in range(0, size, 65536)]
        assert sum(len(mask.feed(piece)) for piece in pieces) + len(mask.flush()) == size
        assert mask.steps <= 2 * size
        steps.append(mask.steps)
    assert steps[2] <= 2.1 * steps[1] <= 4.5 * steps[0]


bodies = st.builds(
    lambda unit, count, tail: unit * count + tail,
    st.text("ab", min_size=1, max_size=3),
    st.integers(1, 12),
    st.text("abc", max_size=2),
)


@given(st.lists(bodies, max_size=12), st.lists(bodies.map(str.encode), max_size=12))
def test_finding_s3_periodic_and_nested_secrets_are_covered_as_by_hand(
    masks: list[str], pieces: list[bytes]
) -> None:
    whole = b"".join(pieces)
    expected = by_hand(whole, masks)
    assert masked(pieces, *masks) == expected
    assert masked([whole], *masks) == expected
    assert masked([bytes([byte]) for byte in whole], *masks) == expected


@given(st.lists(st.binary(min_size=1, max_size=5), max_size=5), st.lists(st.binary(max_size=20)))
def test_finding_s3_any_bytes_of_a_stream_keep_their_places(
    masks: list[bytes], pieces: list[bytes]
) -> None:
    texts = [mask.decode("latin-1") for mask in masks]
    assert masked(pieces, *texts) == by_hand(b"".join(pieces), texts)


def test_finding_s3_passes_share_an_automaton_and_nothing_else() -> None:
    automaton = Automaton(["s3cret"])
    one, other = Mask(automaton), Mask(automaton)
    assert one.feed(b"s3") + other.feed(b"cret") == b"cret"
    assert one.feed(b"cret") + other.flush() == b"******"
