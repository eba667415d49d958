"""The collector of cycles beside a large heap."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from skep_platform.core import gc_control


class Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_it_pauses_and_goes_on_also_after_a_failure():
    with gc_control.paused():
        assert not gc.isenabled()
    with pytest.raises(KeyError), gc_control.paused():
        raise KeyError
    assert gc.isenabled()


def test_a_pause_within_a_pause_ends_with_the_outer_one():
    with gc_control.paused():
        with gc_control.paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_lives_on_is_left_out_of_later_passes():
    lives = Cycle()
    gc_control.set_aside()
    assert gc.get_freeze_count() > 0
    assert not any(thing is lives for thing in gc.get_objects())


def test_what_was_set_aside_is_freed_by_the_next_time_if_it_is_dead():
    thing = Cycle()
    seen = weakref.ref(thing)
    gc_control.set_aside()
    del thing
    gc.collect()
    assert seen() is not None
    gc_control.set_aside()
    assert seen() is None
