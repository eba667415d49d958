"""Beat goes on when the clock of its machine is set."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from celery.beat import Scheduler

from skep_platform import schedule
from skep_platform.celery import app
from skep_platform.schedule import Every, steady_now

HOURS = [-2, 2]
TICK = "skep.scheduling.tick"


class Counted(Scheduler):
    """A beat that keeps the names of the tasks that it would send."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        super().__init__(app)

    def setup_schedule(self) -> None:
        self.merge_inplace(app.conf.beat_schedule)

    def apply_entry(self, entry, producer=None) -> None:
        self.sent.append(entry.task)

    def ticks_of(self, clock: Monotonic, seconds: int) -> int:
        """Let time pass; returns how often the scheduler's tick was sent."""
        self.sent.clear()
        for _ in range(seconds):
            clock.now += 1
            while self.tick() == 0:
                pass
        return self.sent.count(TICK)


class Monotonic:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("hours", HOURS)
def test_beat_sends_as_before_while_the_clock_is_wrong_and_after_it(hours, monkeypatch):
    clock = Monotonic()
    monkeypatch.setattr(schedule, "time", clock)
    beat = Counted()
    assert beat.ticks_of(clock, 20) >= 9

    with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
        assert beat.ticks_of(clock, 20) >= 9

    assert beat.ticks_of(clock, 20) >= 9


@pytest.mark.parametrize("hours", HOURS)
def test_the_time_of_the_schedule_does_not_follow_the_wall_clock(hours):
    before = steady_now()

    with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
        now = steady_now()

    assert timedelta(0) <= now - before < timedelta(minutes=5)


def test_a_last_run_that_lies_in_the_future_holds_up_the_next_one_for_one_period_at_most():
    stored = steady_now() + timedelta(hours=2)

    due, again_s = Every(2.0).is_due(stored)

    assert not due
    assert 0 < again_s <= 2.0


def test_a_run_is_due_after_its_period():
    assert Every(60.0).is_due(steady_now() - timedelta(seconds=60.1)).is_due
    assert not Every(60.0).is_due(steady_now() - timedelta(seconds=1.0)).is_due


def test_beat_can_store_it():
    """`celery beat` keeps entries in a file."""
    stored = pickle.loads(pickle.dumps(Every(2.0)))

    assert isinstance(stored, Every)
    assert stored.run_every == timedelta(seconds=2)
    assert stored.nowfun is steady_now


def test_every_task_is_sent_by_the_steady_clock():
    by_the_wall_clock = {
        name for name, one in app.conf.beat_schedule.items() if type(one["schedule"]) is not Every
    }

    assert by_the_wall_clock == set()
