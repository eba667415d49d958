"""Time-ordered ids."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_platform.core import models
from skep_platform.core.models import uuid7


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(models, "_newest", 0)

    def set_to(ns: int) -> None:
        monkeypatch.setattr(models, "time", SimpleNamespace(time_ns=lambda: ns))

    return set_to


def milliseconds(value) -> int:
    return value.int >> 80


def test_ids_made_within_one_millisecond_sort_by_age(clock):
    clock(1_790_000_000_123_456_789)
    made = [uuid7() for _ in range(3000)]
    assert made == sorted(made, key=lambda one: one.bytes)
    assert len(set(made)) == len(made)
    assert {(one.version, one.variant) for one in made} == {(7, "specified in RFC 4122")}
    assert milliseconds(made[0]) == 1_790_000_000_123


@given(st.lists(st.integers(-5_000_000, 5_000_000), min_size=1, max_size=50))
def test_ids_sort_by_age_while_the_clock_is_corrected(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "_newest", 0)
        now, made = 1_790_000_000_000_000_000, []
        for step in steps:
            now += step
            patch.setattr(models, "time", SimpleNamespace(time_ns=lambda now=now: now))
            made.append(uuid7())
    assert made == sorted(made, key=lambda one: one.bytes)


def test_a_clock_that_was_hours_ahead_does_not_mark_ids_for_hours(clock):
    now = 1_790_000_000_000_000_000
    clock(now + 3600 * 10**9)
    uuid7()
    clock(now)
    assert milliseconds(uuid7()) == now // 10**6


def test_ids_of_many_threads_are_different_and_of_now():
    found: list = []
    threads = [
        threading.Thread(target=lambda: found.extend(uuid7() for _ in range(2000)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8000
    assert abs(milliseconds(found[-1]) / 1000 - datetime.now(UTC).timestamp()) < 60
