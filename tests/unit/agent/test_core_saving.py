"""Attempts that are preempted save their work first: signal, grace, SIGTERM, grace, SIGKILL."""

from __future__ import annotations

import pytest
from tests.support.agent_specs import gpu, spec
from tests.support.agent_world import LEASE_S, World

from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.core.lifecycle import FENCE_GRACE_S

FIELDS = {
    "gpu_uuids": ["GPU-1"],
    "stop_grace_s": 10.0,
    "checkpoint_signal": "SIGUSR2",
    "checkpoint_grace_s": 60.0,
}
CONTAINER = "c-a1-1"


@pytest.fixture
def world() -> World:
    """With one running attempt."""
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(spec(**FIELDS))
    world.complete_all()
    return world


def preempt(world: World, **fields) -> None:
    world.desire(spec(**{**FIELDS, **fields}, desired="stop", stop_cause="preempted"))


def pass_time(world: World, seconds: float) -> None:
    """With a server that answers heartbeats."""
    for _ in range(int(seconds * 10)):
        if world.connected:
            world.heartbeat()
            world.lease_until = world.now + LEASE_S
        world.advance(0.1)


def stops(world: World) -> list[float]:
    return [op.grace_s for op in world.pending if isinstance(op, do.Stop)]


def state(world: World) -> str:
    return world.machine.attempts["a1"].state


def test_the_checkpoint_signal_comes_first_and_sigterm_after_its_grace(world: World) -> None:
    preempt(world)
    assert world.signals == {("a1", 1): "SIGUSR2"}
    assert (state(world), stops(world)) == ("saving", [])
    pass_time(world, 59)
    assert stops(world) == []
    pass_time(world, 2)
    assert (state(world), stops(world)) == ("stopping", [10.0])
    assert world.phases("a1")[-2:] == ["running", "stopping"]


def test_who_has_saved_its_work_and_exits_is_not_waited_for(world: World) -> None:
    preempt(world)
    world.exit(CONTAINER, 0)
    world.settle()
    assert stops(world) == []
    assert world.phases("a1")[-2:] == ["exited", "released"]


@pytest.mark.parametrize("cause", ["", "left out"])
def test_who_is_stopped_for_another_reason_gets_no_checkpoint_signal(world: World, cause) -> None:
    world.desire(*([] if cause else [spec(**FIELDS, desired="stop")]))
    assert world.signals == {}
    assert stops(world) == [10.0]


def test_a_job_without_a_checkpoint_signal_is_asked_to_end_at_once() -> None:
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(spec(**{**FIELDS, "checkpoint_signal": ""}))
    world.complete_all()
    preempt(world, checkpoint_signal="")
    assert (world.signals, stops(world)) == ({}, [10.0])


def test_asking_again_changes_nothing(world: World) -> None:
    preempt(world)
    pass_time(world, 30)
    preempt(world)
    world.desire(spec(**FIELDS, desired="stop"))
    world.desire()
    assert (state(world), stops(world)) == ("saving", [])
    pass_time(world, 31)
    assert stops(world) == [10.0]


def test_finding_j1_a_task_that_handles_no_signal_is_reported_and_stopped_when_no_gang_waits(
    world: World,
) -> None:
    preempt(world)
    world.send(ev.Signalled("a1", 1, handled=False))
    assert world.phases("a1")[-1] == "stopping"
    assert world.facts[-1].error_code == "signal_unhandled"
    assert "SIGUSR2" in world.facts[-1].message
    assert (state(world), stops(world)) == ("saving", [])
    preempt(world, stop_at_once=True)
    assert (state(world), stops(world)) == ("stopping", [10.0])


def test_finding_j1_a_trap_for_sigterm_keeps_the_time_that_it_was_given() -> None:
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(spec(**{**FIELDS, "checkpoint_signal": "SIGTERM"}))
    world.complete_all()
    preempt(world, checkpoint_signal="SIGTERM")
    pass_time(world, 20)
    preempt(world, checkpoint_signal="SIGTERM", stop_at_once=True)
    assert [round(grace) for grace in stops(world)] == [50]


def test_an_agent_that_comes_back_goes_on_with_the_same_deadline(world: World) -> None:
    preempt(world)
    pass_time(world, 40)
    world.restart()
    assert (state(world), len(world.signals)) == ("saving", 1)
    world.welcome()
    preempt(world)
    pass_time(world, 19)
    assert stops(world) == []
    pass_time(world, 2)
    assert stops(world) == [10.0]


def test_also_between_sigterm_and_sigkill(world: World) -> None:
    preempt(world)
    pass_time(world, 61)
    pass_time(world, 6)
    world.restart()
    assert state(world) == "stopping"
    (grace,) = stops(world)
    assert 2 < grace < 4


def test_a_deadline_of_another_life_of_the_machine_is_not_beyond_the_grace(world: World) -> None:
    preempt(world)
    world.now -= 500
    world.lease_until = world.journal_lease = None
    world.restart()
    assert world.machine.deadlines.next() <= world.now + 60


def test_a_lost_server_ends_the_saving(world: World) -> None:
    """Its GPUs may soon be given to others."""
    preempt(world)
    world.disconnect()
    world.advance(LEASE_S + 1)
    assert (state(world), stops(world)) == ("stopping", [FENCE_GRACE_S])


def test_a_signal_that_does_not_arrive_is_reported_and_the_stop_comes_all_the_same(
    world: World,
) -> None:
    preempt(world)
    attempt = world.machine.attempts["a1"]
    world.fail_signal(attempt.attempt_id, attempt.epoch)
    assert "signal_failed" in world.warnings
    pass_time(world, 61)
    assert stops(world) == [10.0]


def test_who_is_preempted_while_it_starts_gets_its_signal_when_it_runs() -> None:
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(spec(**FIELDS))
    while state(world) != "starting":
        world.complete(world.pending[0])
    preempt(world)
    world.complete_all()
    assert (state(world), len(world.signals)) == ("saving", 1)


def test_who_is_preempted_before_it_has_a_container_ends_at_once() -> None:
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(spec(**FIELDS))
    preempt(world)
    world.settle()
    assert world.signals == {}
    assert world.phases("a1")[-2:] == ["exited", "released"]
