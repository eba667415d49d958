"""What nodes' facts do to an attempt, in order, out of order, again, and garbled."""

from __future__ import annotations

import itertools
import math
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_agent.protocol import ERROR_CODES, AttemptFact
from skep_platform.jobs.lifecycle.facts import AttemptRow, fold
from skep_platform.jobs.lifecycle.messages import OVER_TIME
from skep_platform.jobs.states import ATTEMPT

BORN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BORN + timedelta(hours=1)


def attempt(state: str = "ASSIGNED", **fields: Any) -> AttemptRow:
    known: dict[str, Any] = {
        "id": uuid.UUID(int=1),
        "job_id": uuid.UUID(int=2),
        "epoch": 1,
        "created_at": BORN,
        "index": 1,
        "role_id": 1,
        "min_failed": 1,
        "min_succeeded": -1,
        "network": "job",
        "state": state,
        "phase": "",
        "pull_percent": None,
        "pull_bytes": None,
        "pull_total_bytes": None,
        "container_id": "",
        "exit_code": None,
        "exit_signal": None,
        "oom_killed": False,
        "error_code": "",
        "error_message": "",
        "memory_peak_mb": None,
        "xids": [],
        "disk_full": False,
        "ready_at": None,
        "started_at": None,
        "finished_at": None,
        "released_at": None,
    }
    return AttemptRow(**{**known, **fields})


def fact(phase: str, **fields: Any) -> AttemptFact:
    known = {"seq": 1, "attempt_id": "a", "epoch": 1, "at": BORN.timestamp() + 60}
    return AttemptFact(phase=phase, **{**known, **fields})  # type: ignore[arg-type]


def after(start: AttemptRow, *facts: AttemptFact) -> AttemptRow:
    end = replace(start)
    for one in facts:
        fold(end, one, NOW)
    return end


MOVES = {
    "pulling": ("ASSIGNED", fact("pulling", pull_percent=3), "PREPARING"),
    "creating": ("ASSIGNED", fact("creating"), "PREPARING"),
    "ready": ("PREPARING", fact("ready"), "PREPARING"),
    "ready at once": ("ASSIGNED", fact("ready"), "PREPARING"),
    "ready, but asked to stop": ("STOPPING", fact("ready"), "STOPPING"),
    "running at once": ("ASSIGNED", fact("running"), "RUNNING"),
    "running": ("PREPARING", fact("running"), "RUNNING"),
    "running, but asked to stop": ("STOPPING", fact("running"), "STOPPING"),
    "stopping by itself": ("RUNNING", fact("stopping"), "RUNNING"),
    "exited well": ("RUNNING", fact("exited", exit_code=0), "SUCCEEDED"),
    "exited badly": ("RUNNING", fact("exited", exit_code=3), "FAILED"),
    "exited without a code": ("RUNNING", fact("exited"), "FAILED"),
    "exited well after it was asked to stop": ("STOPPING", fact("exited", exit_code=0), "STOPPED"),
    "stopped before it started": ("STOPPING", fact("exited"), "STOPPED"),
    "exited before its start was reported": ("PREPARING", fact("exited", exit_code=0), "SUCCEEDED"),
    "failed to pull": ("PREPARING", fact("failed", error_code="image_not_found"), "FAILED"),
    "failed while it stops": ("STOPPING", fact("failed", error_code="engine_down"), "STOPPED"),
    "released without an end": ("RUNNING", fact("released"), "LOST"),
    "released without a start": ("ASSIGNED", fact("released"), "LOST"),
    "released as asked": ("STOPPING", fact("released"), "STOPPED"),
    "released after its end": ("FAILED", fact("released"), "FAILED"),
    "running after its end": ("FAILED", fact("running"), "FAILED"),
    "exited twice": ("SUCCEEDED", fact("exited", exit_code=9), "SUCCEEDED"),
}


@pytest.mark.parametrize("case", MOVES)
def test_move(case: str) -> None:
    start, found, end = MOVES[case]
    assert after(attempt(start), found).state == end


def test_an_exit_keeps_what_the_node_saw():
    found = fact("exited", exit_code=137, signal=9, oom_killed=True, memory_peak_mb=512)
    end = after(attempt("RUNNING"), found)
    assert (end.exit_code, end.exit_signal, end.oom_killed) == (137, 9, True)
    assert (end.memory_peak_mb, end.error_code) == (512, "oom_killed")
    assert end.finished_at == BORN + timedelta(seconds=60)


def test_late_news_of_a_pull_change_nothing():
    running = after(attempt(), fact("running"))
    assert after(running, fact("pulling", pull_percent=50)) == running


def test_a_task_that_is_ready_says_since_when_and_stays_so():
    ready = after(attempt(), fact("pulling", pull_percent=50), fact("ready"))
    assert (ready.phase, ready.ready_at) == ("ready", BORN + timedelta(seconds=60))
    assert after(ready, fact("creating"), fact("pulling", pull_percent=90)) == ready
    assert after(ready, fact("running")).ready_at == ready.ready_at


def test_errors_of_gpus_are_kept_once_each_in_their_order():
    end = after(attempt("RUNNING"), fact("running", xids=[79]), fact("exited", xids=[13, 79]))
    assert end.xids == [79, 13]


def test_a_full_disk_is_kept():
    assert after(attempt("RUNNING"), fact("exited", exit_code=1, disk_full=True)).disk_full
    assert after(attempt("PREPARING"), fact("failed", disk_full=True)).disk_full


def test_a_container_that_the_node_lost_is_reported_as_such():
    end = after(attempt("RUNNING"), fact("released"))
    assert (end.error_code, end.released_at) == ("container_lost", NOW)


def test_nothing_changes_after_the_release():
    end = after(attempt("RUNNING"), fact("exited", exit_code=0), fact("released"))
    for phase in ("pulling", "running", "exited", "failed", "released"):
        assert after(end, fact(phase, exit_code=1, error_code="x")) == end


@pytest.mark.parametrize(
    ("at", "expected"),
    [(0.0, BORN), (-1e308, BORN), (1e308, NOW), (math.nan, NOW), (math.inf, NOW)],
)
def test_a_wrong_clock_is_kept_between_birth_and_now(at, expected):
    assert after(attempt(), fact("running", at=at)).started_at == expected


def test_25_values_of_a_rogue_node_fit_their_columns():
    found = fact(
        "exited",
        exit_code=10**30,
        signal=-5,
        memory_peak_mb=-(10**30),
        container_id="\0" + "c" * 1000,
        error_code="e" * 1000,
        message="\0\ud800" + "m" * 10**6,
        xids=[-1, 10**30, *range(10**4)],
    )
    end = after(attempt("RUNNING"), found)
    assert (end.exit_code, end.exit_signal, end.memory_peak_mb) == (2**31 - 1, 0, 0)
    assert (len(end.container_id), end.error_code) == (80, "")
    assert len(end.error_message) <= 2000
    assert end.xids[:3] == [0, 2**31 - 1, 1]
    assert len(end.xids) <= 32
    end.error_message.encode()


@pytest.mark.parametrize("phase", ["exited", "failed"])
@given(code=st.text(max_size=80).filter(lambda code: code not in ERROR_CODES))
def test_a_code_that_is_not_of_the_protocol_is_kept_as_text_alone(phase, code):
    end = after(attempt("RUNNING"), fact(phase, exit_code=1, error_code=code, message="It broke."))
    assert end.error_code == ("failed" if phase == "failed" else "")
    assert end.error_message.startswith("It broke.")


def test_the_codes_of_the_protocol_are_no_verdicts_of_the_server():
    reasons = {"succeeded", "stopped", "owner_left", "preempted", "evicted", OVER_TIME}
    assert not ERROR_CODES & reasons


LIFE = [
    fact("pulling", pull_percent=10),
    fact("creating"),
    fact("ready"),
    fact("running"),
    fact("exited", exit_code=0),
    fact("released"),
]


@given(st.lists(st.integers(0, 5), max_size=12))
def test_replayed_prefixes_end_like_one_life(repeats):
    """An agent re-sends from the oldest fact that was not acknowledged: any prefix, again."""
    found = list(LIFE)
    for cut in repeats:
        found = [*LIFE[: cut + 1], *found]
    end, once = after(attempt(), *found), after(attempt(), *LIFE)
    assert (end.state, end.released_at) == (once.state, once.released_at)


def test_no_order_of_facts_makes_an_illegal_move():
    for order in itertools.permutations(LIFE):
        seen = attempt()
        for one in order:
            before = seen.state
            fold(seen, one, NOW)
            assert before == seen.state or ATTEMPT.allows(before, seen.state)
        assert seen.released_at == NOW
        assert seen.ended
