"""The life of attempts on a node, as instructions and facts."""

from __future__ import annotations

import pytest
from tests.support.agent_specs import gpu, spec
from tests.support.agent_world import LEASE_S, World

from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.core.lifecycle import OPERATION_S, PULL_STALL_S, IllegalTransition
from skep_agent.core.machine import VERIFY_LIMIT_S

G1, G2 = gpu("GPU-1"), gpu("GPU-2", index=1)


@pytest.fixture
def world() -> World:
    world = World([G1, G2])
    world.welcome()
    return world


def run(world: World, attempt_id: str = "a1", **fields) -> str:
    """Bring one attempt to running; returns its container."""
    world.desire(spec(attempt_id, **fields))
    world.complete_all()
    return next(c.container_id for c in world.running() if c.attempt_id == attempt_id)


def pass_time(world: World, seconds: float) -> None:
    """With a server that answers heartbeats."""
    for _ in range(100):
        world.heartbeat()
        world.advance(seconds / 100)


def test_an_attempt_is_pulled_created_started_watched_and_its_log_shipped(world: World) -> None:
    world.desire(spec())
    assert [type(op) for op in world.pending] == [do.Pull]
    world.complete(world.pending[0])
    assert [type(op) for op in world.pending] == [do.Create]
    world.complete(world.pending[0])
    assert [type(op) for op in world.pending] == [do.Start]
    world.complete(world.pending[0])
    assert world.watched == {"c-a1-1": ("a1", 1)}
    assert "a1" in world.logs
    assert world.phases("a1") == ["pulling", "creating", "running"]


def test_the_exit_is_reported_at_once_and_the_gpus_after_they_were_seen_clean(world: World) -> None:
    container = run(world, gpu_uuids=["GPU-1"])
    world.exit(container, 3)
    assert world.phases("a1")[-1] == "exited"
    assert world.facts[-1].exit_code == 3
    assert world.pending == [do.VerifyGpus("a1", 1, ("GPU-1",))]
    world.complete_all()
    assert world.phases("a1")[-1] == "released"


def test_a_signal_is_distinguished_from_an_exit_code(world: World) -> None:
    world.exit(run(world), 137)
    assert (world.facts[-2].exit_code, world.facts[-2].signal) == (137, 9)


@pytest.mark.parametrize("order", [("log", "facts"), ("facts", "log")])
def test_a_container_is_removed_when_its_log_and_its_end_are_with_the_server(
    world: World, order: tuple[str, str]
) -> None:
    world.exit(run(world))
    world.complete_all()
    for step in order:
        assert not any(isinstance(op, do.Remove) for op in world.pending)
        world.drain("a1") if step == "log" else world.ack_facts()
    assert world.pending == [do.Remove("a1", 1, "c-a1-1")]
    world.complete_all()
    assert not world.machine.attempts
    assert not world.containers
    assert not world.journal


@pytest.mark.parametrize("operation", ["pull", "create", "start"])
def test_a_failed_operation_fails_the_attempt_and_gives_its_gpus_back(
    world: World, operation: str
) -> None:
    world.desire(spec(gpu_uuids=["GPU-1"]))
    while type(world.pending[0]).__name__.lower() != operation:
        world.complete(world.pending[0])
    world.complete(world.pending[0], error="image_not_found")
    failed = next(f for f in world.facts if f.phase == "failed")
    assert (failed.error_code, failed.message) == ("image_not_found", "as the test says")
    world.settle()
    assert world.phases("a1")[-1] == "released"
    assert not world.machine.attempts
    assert not world.containers


def test_a_pull_is_reported_once_a_second_and_only_when_a_percent_came(world: World) -> None:
    world.desire(spec())
    world.machine.outbox.take(10)
    for half in range(12):  # of a second; a percent in each of the first five, then none
        percent = min(half, 5)
        world.send(ev.PullProgressed("a1", 1, percent, percent * 100, 8000))
        world.machine.outbox.take(10)
        world.heartbeat()
        world.advance(0.5)
    found = [f for f in world.facts if f.phase == "pulling"]
    assert [f.pull_percent for f in found] == [0, 1, 3, 5]
    assert [f.pull_bytes for f in found] == [0, 100, 300, 500]
    assert found[-1].pull_total_bytes == 8000


def test_a_pull_without_progress_is_given_up(world: World) -> None:
    world.desire(spec())
    pass_time(world, PULL_STALL_S - 1)
    world.send(ev.PullProgressed("a1", 1, 1))
    pass_time(world, PULL_STALL_S - 1)
    assert world.machine.attempts["a1"].state == "pulling"
    pass_time(world, 2)
    assert [f.error_code for f in world.facts if f.phase == "failed"] == ["image_pull"]
    assert world.pending == []


def test_an_engine_that_does_not_answer_fails_the_attempt() -> None:
    world = World([G1])
    world.welcome()
    world.desire(spec())
    world.complete(world.pending[0])
    pass_time(world, OPERATION_S + 1)
    failed = next(f for f in world.facts if f.phase == "failed")
    assert failed.error_code == "engine_down"


@pytest.mark.parametrize(
    ("state", "phases"),
    [
        ("pulling", ["exited", "released"]),
        ("creating", ["exited", "released"]),
        ("starting", ["running", "stopping", "exited", "released"]),
        ("running", ["running", "stopping", "exited", "released"]),
    ],
)
@pytest.mark.parametrize("how", ["requested", "unlisted"])
def test_an_attempt_is_stopped_from_every_state(
    world: World, state: str, phases: list[str], how: str
) -> None:
    asked = spec(gpu_uuids=["GPU-1"])
    world.desire(asked)
    while world.machine.attempts["a1"].state != state:
        world.complete(world.pending[0])
    world.desire(*[asked.model_copy(update={"desired": "stop"})] if how == "requested" else [])
    world.settle()
    found = [p for p in world.phases("a1") if p not in ("pulling", "creating")]
    assert found == phases
    assert not world.containers
    assert not world.machine.gpus.holders


def test_a_stop_has_the_grace_time_that_the_job_asked_for(world: World) -> None:
    run(world, stop_grace_s=7)
    world.desire()
    assert world.pending == [do.Stop("a1", 1, "c-a1-1", 7)]


def test_a_failed_stop_is_tried_again(world: World) -> None:
    run(world)
    world.desire()
    world.complete(world.pending[0], error="engine_down")
    world.advance(2)
    assert isinstance(world.pending[0], do.Stop)


def test_a_stop_for_an_attempt_that_never_came_here_is_answered(world: World) -> None:
    world.desire(spec(desired="stop", gpu_uuids=["GPU-1"]))
    assert world.phases("a1") == ["exited"], "its GPUs are looked at first"
    world.complete_all()
    assert world.phases("a1") == ["exited", "released"]
    assert world.pending == []


def test_an_attempt_left_out_of_an_older_session_is_not_stopped(world: World) -> None:
    run(world)
    world.disconnect()
    world.desire()
    assert world.machine.attempts["a1"].state == "running"


def test_an_older_revision_is_ignored(world: World) -> None:
    run(world)
    world.desire(spec(), revision=7)
    world.desire(revision=6)
    assert world.machine.attempts["a1"].state == "running"
    assert world.machine.revision == 7


def test_revisions_begin_anew_with_each_session(world: World) -> None:
    world.desire(revision=7)
    world.disconnect()
    world.welcome()
    world.desire(spec(), revision=3)
    assert "a1" in world.machine.attempts


def test_a_lower_epoch_of_a_held_attempt_is_ignored(world: World) -> None:
    run(world, epoch=5)
    world.desire(spec(epoch=4, desired="stop"))
    assert world.machine.attempts["a1"].state == "running"


def test_a_higher_epoch_runs_after_the_older_life_is_gone(world: World) -> None:
    run(world, epoch=1, gpu_uuids=["GPU-1"])
    world.desire(spec(epoch=2, gpu_uuids=["GPU-1"]))
    world.settle()
    assert [c.container_id for c in world.running()] == ["c-a1-2"]


def test_an_end_the_server_missed_is_sent_again_and_nothing_runs_twice(world: World) -> None:
    world.exit(run(world), 0)
    world.settle()
    assert not world.machine.attempts
    seen = len(world.facts)
    world.desire(spec())
    assert [f.phase for f in world.facts[seen:]] == ["exited", "released"]
    world.desire(spec())
    assert len(world.facts) == seen + 2, "not again before these are acknowledged"
    world.settle()
    assert not world.running()


def test_the_lease_runs_from_the_sending_of_the_newest_acknowledged_heartbeat(
    world: World,
) -> None:
    container = run(world)
    world.now += 10
    world.send(ev.HeartbeatAcked(sent_at=world.now - 4))
    world.lease_until = world.now - 4 + LEASE_S
    world.advance(LEASE_S - 4.1)
    assert world.machine.attempts["a1"].state == "running"
    world.advance(0.2)
    assert world.machine.attempts["a1"].stop_reason == "fenced"
    assert world.reconnects == 1
    world.complete_all()
    assert world.containers[container].status == "exited"
    failed = next(f for f in world.facts if f.phase == "failed")
    assert failed.error_code == "node_lost"


def test_a_fence_is_the_reason_of_what_was_not_written_back(world: World) -> None:
    container = run(world)
    world.advance(LEASE_S + 0.1)
    world.exit(container, 0, error_code="storage_not_synced", message="Not all of it.")
    assert [f.error_code for f in world.facts if f.phase == "failed"] == ["node_lost"]


def test_a_fence_shortens_the_grace_of_a_stop_under_way(world: World) -> None:
    run(world, stop_grace_s=600)
    world.desire()
    world.advance(LEASE_S + 1)
    assert [op.grace_s for op in world.pending if isinstance(op, do.Stop)] == [600, 3]


def test_nothing_is_started_between_a_fence_and_the_next_session(world: World) -> None:
    world.advance(LEASE_S + 1)
    world.send(ev.DesiredArrived(99, (spec(),)))
    assert not world.machine.attempts
    world.welcome()
    world.desire(spec())
    assert "a1" in world.machine.attempts


def test_gpus_with_a_process_left_are_looked_at_again_and_then_put_in_quarantine(
    world: World,
) -> None:
    world.busy = {"GPU-1"}
    world.exit(run(world, gpu_uuids=["GPU-1", "GPU-2"]))
    until = world.now + VERIFY_LIMIT_S + 20
    while world.now < until:
        world.complete_all()
        world.heartbeat()
        world.advance(1)
    assert "released" not in world.phases("a1")
    assert [g.healthy for g in world.machine.gpus.view()] == [False, True]
    assert "4711" in world.machine.gpus.view()[0].problem
    assert "4711" in world.facts[-1].message
    world.busy = set()
    for _ in range(40):
        world.complete_all()
        world.heartbeat()
        world.advance(1)
    assert world.phases("a1")[-1] == "released"
    assert all(g.healthy for g in world.machine.gpus.view())


def test_a_vanished_container_is_released_without_an_exit(world: World) -> None:
    world.vanish(run(world, gpu_uuids=["GPU-1"]))
    world.settle()
    assert world.phases("a1") == ["pulling", "creating", "running", "released"]
    assert not world.machine.attempts


def test_a_change_of_gpus_is_reported_once(world: World) -> None:
    world.send(ev.GpusSeen((G1, G2)))
    assert world.inventories == 0
    broken = gpu("GPU-2", index=1, healthy=False, problem="XID 79")
    world.send(ev.GpusSeen((G1, broken)))
    world.send(ev.GpusSeen((G1, broken)))
    assert world.inventories == 1
    assert world.machine.gpus.view() == [G1, broken]


def test_facts_of_eyes_only_give_way_to_newer_ones_and_the_rest_is_resent() -> None:
    world = World()
    world.welcome()
    world.exit(run(world), 0)
    first = world.machine.outbox.take(100)
    assert [f.phase for f in first] == ["running", "exited", "released"]
    world.disconnect()
    world.welcome()
    assert world.machine.outbox.take(100) == first
    world.send(ev.FactsAcked(first[1].seq))
    world.welcome()
    assert world.machine.outbox.take(100) == first[2:]


def test_an_illegal_transition_reports_the_history(world: World) -> None:
    run(world)
    with pytest.raises(IllegalTransition, match="starting"):
        world.machine.life.move(world.machine.attempts["a1"], "pulling")


def test_the_history_of_an_attempt_outlives_it(world: World) -> None:
    world.exit(run(world))
    world.settle()
    history = [(c.start, c.finish) for c in world.machine.history("a1")]
    assert history[0] == ("new", "pulling")
    assert history[-1] == ("removing", "gone")


def test_late_results_of_an_older_life_change_nothing(world: World) -> None:
    run(world, epoch=2)
    for event in (
        ev.Exited("a1", 1, None),  # type: ignore[arg-type]
        ev.OperationFailed("a1", 1, "stop", "x", "y"),
        ev.LogsDrained("a1", 1),
        ev.GpusClean("nobody", 1),
    ):
        assert world.send(event) == []


def test_a_log_that_no_one_takes_does_not_hold_a_forgotten_container_for_ever(
    world: World,
) -> None:
    world.exit(run(world))
    world.complete_all()
    world.ack_facts()
    for _ in range(400):
        world.heartbeat()
        world.advance(10)
        world.desire()
    world.complete_all()
    assert not world.containers
    assert "log_given_up" in world.warnings


def test_the_errors_of_its_gpus_are_reported_with_the_end_and_those_of_others_are_not(
    world: World,
) -> None:
    world.desire(spec(gpu_uuids=["GPU-1"]), spec("a2", gpu_uuids=["GPU-2"]))
    world.complete_all()
    world.send(ev.XidsSeen((("GPU-1", 31), ("GPU-2", 13), ("GPU-1", 79), ("GPU-1", 31))))
    world.exit("c-a1-1", 1)
    assert world.facts[-1].phase == "exited"
    assert world.facts[-1].xids == [31, 79]
    world.send(ev.XidsSeen((("", 119),)))
    world.complete_all()
    assert (world.facts[-1].phase, world.facts[-1].xids) == ("released", [31, 79, 119])


def test_errors_from_before_the_start_belong_to_no_one(world: World) -> None:
    world.send(ev.XidsSeen((("GPU-1", 79),)))
    world.exit(run(world, gpu_uuids=["GPU-1"]), 1)
    assert all(fact.xids == [] for fact in world.facts)


def test_a_full_disk_is_reported_with_the_end_of_what_ran_and_of_what_could_not(
    world: World,
) -> None:
    world.exit(run(world), 1, disk_full=True)
    assert [f.disk_full for f in world.facts if f.phase == "exited"] == [True]
    world.desire(spec(), spec("a2"))
    pull = next(op for op in world.pending if isinstance(op, do.Pull))
    world.complete(pull, error="disk_full")
    assert [f.disk_full for f in world.facts if f.phase == "failed"] == [True]


def test_finding_s6_what_a_tenant_makes_an_engine_say_is_cut(world: World) -> None:
    world.desire(spec())
    said = "no such program: " + "x" * 10_000_000
    world.pending.clear()
    world.send(ev.OperationFailed("a1", 1, "pull", "create_failed", said))
    failed = next(fact for fact in world.facts if fact.phase == "failed")
    assert len(failed.message) == 2000
    assert failed.message.startswith("no such program")
    assert all(
        len(record.outcome.message) <= 2000 for record in world.journal.values() if record.outcome
    )
