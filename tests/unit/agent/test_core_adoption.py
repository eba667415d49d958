"""An agent takes over what it finds after its own death."""

from __future__ import annotations

import pytest
from tests.support.agent_specs import gpu, spec
from tests.support.agent_world import LEASE_S, World

from skep_agent.containers import Container, Exit
from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.core.adoption import UNKNOWN_LEASE_S

GPUS = [gpu("GPU-1"), gpu("GPU-2", index=1)]
FIELDS = {"gpu_uuids": ["GPU-1"], "stop_grace_s": 5.0}


@pytest.fixture
def world() -> World:
    """With one running attempt."""
    world = World(GPUS)
    world.welcome()
    world.desire(spec(**FIELDS))
    world.complete_all()
    assert world.running()
    return world


def test_a_running_container_goes_on_and_its_log_and_exit_are_not_missed(world: World) -> None:
    world.restart()
    assert world.machine.attempts["a1"].state == "running"
    assert world.machine.gpus.holders == {"GPU-1": "a1"}
    assert "a1" in world.logs
    world.welcome()
    world.desire(spec(**FIELDS))
    assert world.pending == []
    world.exit("c-a1-1", 4)
    world.settle()
    assert world.phases("a1")[-2:] == ["exited", "released"]
    assert not world.containers


def test_a_container_that_ended_meanwhile_is_reported_with_its_exit_code(world: World) -> None:
    world.watched.clear()
    world.exit("c-a1-1", 9)
    world.restart()
    assert [f.exit_code for f in world.facts if f.phase == "exited"] == [9]


def test_a_container_that_was_removed_meanwhile_is_released_as_lost(world: World) -> None:
    world.containers.clear()
    world.restart()
    world.settle()
    assert world.phases("a1") == ["pulling", "creating", "running", "released"]


def test_labels_alone_are_enough_without_a_journal(world: World) -> None:
    world.journal.clear()
    world.journal_lease = None
    world.restart()
    assert world.machine.attempts["a1"].gpus == ("GPU-1",)
    assert world.machine.lease_until == world.now + UNKNOWN_LEASE_S
    world.welcome()
    world.desire(spec(**FIELDS))
    assert world.machine.attempts["a1"].plan.grace_s == 5.0


def test_an_adopted_container_that_is_not_listed_is_stopped(world: World) -> None:
    world.restart()
    world.welcome()
    world.desire()
    world.settle()
    assert not world.containers


def test_an_adopted_container_that_the_server_cannot_describe_goes_on(world: World) -> None:
    world.restart()
    world.welcome()
    world.desire(spec("a2"), keep=["a1"])
    world.settle()
    assert {one.attempt_id for one in world.running()} == {"a1", "a2"}
    world.desire(spec("a2", desired="stop"))
    world.settle()
    assert not world.containers


def test_the_lease_goes_on_over_a_restart(world: World) -> None:
    world.now += LEASE_S - 1
    world.restart()
    assert world.machine.attempts["a1"].state == "running"
    world.advance(2)
    assert world.machine.attempts["a1"].stop_reason == "fenced"


@pytest.mark.parametrize("wanted", [True, False])
def test_a_container_created_but_not_started_waits_for_the_servers_word(wanted: bool) -> None:
    world = World(GPUS)
    world.welcome()
    world.desire(spec())
    while world.machine.attempts["a1"].state != "starting":
        world.complete(world.pending[0])
    world.restart()
    assert world.machine.attempts["a1"].state == "created"
    assert not world.running()
    world.welcome()
    world.desire(*[spec()] if wanted else [])
    world.settle()
    assert len(world.running()) == wanted
    assert len(world.containers) == wanted


def test_a_released_attempt_is_sent_again_and_never_run_again(world: World) -> None:
    world.exit("c-a1-1", 0)
    world.complete_all()
    assert world.phases("a1")[-1] == "released"
    world.restart()
    assert world.machine.gpus.holders == {}
    world.welcome()
    world.desire(spec(**FIELDS))
    assert world.phases("a1")[-2:] == ["exited", "released"]
    world.settle()
    assert not world.containers


def test_a_refused_attempt_stays_refused_over_a_restart() -> None:
    world = World(GPUS)
    world.welcome()
    world.desire(spec(cpus=99))
    world.restart()
    world.welcome()
    world.desire(spec(cpus=99))
    assert world.facts[-2].error_code == "spec_refused"
    assert world.facts[-1].phase == "released"


def test_sequence_numbers_rise_over_restarts(world: World) -> None:
    world.restart()
    seqs = [f.seq for f in world.facts]
    assert seqs == sorted(set(seqs))


def stray(**fields) -> Container:
    return Container(
        **{
            "container_id": "c9",
            "attempt_id": "a9",
            "epoch": 1,
            "job_id": "j",
            "gpu_uuids": (),
            "status": "running",
        }
        | fields
    )


def test_a_container_found_later_is_adopted_and_stopped_when_not_listed(world: World) -> None:
    world.containers["c9"] = stray()
    world.look()
    assert world.machine.attempts["a9"].state == "stopping"


def test_a_container_found_later_goes_on_when_the_server_cannot_describe_it(world: World) -> None:
    world.desire(keep=["a1", "a9"])
    world.containers["c9"] = stray()
    world.look()
    assert world.machine.attempts["a9"].state == "running"


def test_a_container_found_later_is_left_alone_without_a_session(world: World) -> None:
    world.disconnect()
    world.containers["c9"] = stray()
    world.look()
    assert world.machine.attempts["a9"].state == "running"


def test_an_old_list_does_not_bring_back_what_was_removed(world: World) -> None:
    old = tuple(world.containers.values())
    world.exit("c-a1-1")
    world.settle()
    world.send(ev.ContainersSeen(old))
    assert not world.machine.attempts


def test_of_two_lives_of_one_attempt_the_newer_one_is_kept(world: World) -> None:
    world.evidence.add(("a9", 1))
    world.containers |= {
        "c8": stray(container_id="c8", status="exited", exit=Exit(0)),
        "c9": stray(epoch=2),
    }
    world.restart()
    world.complete_all()
    assert world.machine.attempts["a9"].container_id == "c9"
    assert "c8" not in world.containers


def test_finding_c2_what_has_run_is_reported_and_not_run_again_whatever_the_agent_forgot(
    world: World,
) -> None:
    world.watched.clear()
    world.exit("c-a1-1", 7)
    world.journal.clear()
    world.journal_lease = None
    world.restart()
    world.welcome()
    world.desire(spec(**FIELDS))
    world.settle()
    assert world.phases("a1")[-2:] == ["exited", "released"]
    assert world.phases("a1").count("running") == 1
    assert [f.exit_code for f in world.facts if f.phase == "exited"] == [7]


def test_finding_c1_what_happened_while_the_agent_was_stopped_is_the_end_of_the_lease(
    world: World,
) -> None:
    """The watchdog killed it: that is no exit of the task's own."""
    world.freeze(2 * LEASE_S)
    world.exit("c-a1-1", 137)
    failed = next(fact for fact in world.facts if fact.phase == "failed")
    assert failed.error_code == "node_lost"
    assert "exited" not in world.phases("a1")


def test_finding_c1_nothing_starts_when_the_agent_was_stopped_past_its_lease(
    world: World,
) -> None:
    world.desire(spec(**FIELDS), spec("a2"))
    world.complete(next(op for op in world.pending if isinstance(op, do.Pull)))
    create = next(op for op in world.pending if isinstance(op, do.Create))
    world.freeze(2 * LEASE_S)
    world.complete(create)
    assert not [op for op in world.pending if isinstance(op, do.Start)]


def test_finding_s3_a_renewed_lease_is_no_reason_to_fence_though_the_core_was_busy(
    world: World,
) -> None:
    world.freeze(LEASE_S - 1)
    world.lease_seen()
    world.freeze(2)
    world.send(ev.Tick())
    assert world.machine.attempts["a1"].stop_reason is None
    world.desire(spec(**FIELDS))
    assert world.running()
