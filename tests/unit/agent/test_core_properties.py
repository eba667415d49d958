"""Random desired states, failures, restarts and lease expiries: the invariants hold after every
step, no container is stopped without evidence, no GPU is used twice, and it all ends."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.agent_specs import gpu, spec
from tests.support.agent_world import World
from tests.support.examples import examples

from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.core.invariants import validate

UUIDS = ["GPU-1", "GPU-2", "GPU-3"]
IDS = ["a1", "a2", "a3", "a4"]

specs = st.builds(
    spec,
    st.sampled_from(IDS),
    epoch=st.sampled_from([1, 1, 1, 2, 3]),
    desired=st.sampled_from(["run", "run", "run", "hold", "hold", "stop"]),
    gpu_uuids=st.lists(st.sampled_from([*UUIDS, *UUIDS, "GPU-9"]), max_size=2),
    cpus=st.sampled_from([1.0, 1.0, 1.0, 99.0]),
    stop_cause=st.sampled_from(["", "preempted"]),
    checkpoint_signal=st.sampled_from(["", "SIGUSR1", "SIGUSR1", "SIGKILL"]),
    checkpoint_grace_s=st.sampled_from([0.0, 5.0, 50.0]),
    network=st.sampled_from(["isolated", "host"]),
    ports=st.dictionaries(st.just("http"), st.lists(st.integers(20000, 20003), max_size=2)),
)
desired = st.lists(specs, min_size=1, max_size=4, unique_by=lambda s: s.attempt_id)


class Node(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World([gpu(uuid) for uuid in UUIDS])
        self.world.welcome()

    @rule(specs=desired, step=st.sampled_from([-1, 0, 1, 1, 1]))
    def the_server_lists(self, specs, step) -> None:
        self.world.desire(*specs, revision=max(0, self.world.revision + step))

    @rule(left_out=st.sampled_from(IDS))
    def the_server_lists_one_less(self, left_out) -> None:
        listed = self.world.listed.values()
        self.world.desire(*[s for s in listed if s.attempt_id != left_out])

    @rule(unknown=st.sets(st.sampled_from(IDS)))
    def the_server_cannot_describe(self, unknown) -> None:
        listed = self.world.listed.values()
        self.world.desire(*[s for s in listed if s.attempt_id not in unknown], keep=unknown)

    @rule(again=st.sampled_from([True, True, False]))
    def the_connection_breaks(self, again) -> None:
        self.world.disconnect()
        if again:
            self.world.welcome()

    @precondition(lambda self: not self.world.connected)
    @rule()
    def the_server_welcomes(self) -> None:
        self.world.welcome()

    @precondition(lambda self: self.world.connected)
    @rule()
    def a_heartbeat_is_acknowledged(self) -> None:
        self.world.heartbeat()

    @rule()
    def the_facts_are_acknowledged(self) -> None:
        self.world.ack_facts()

    @precondition(lambda self: self.world.pending)
    @rule(data=st.data(), fails=st.sampled_from([False, False, False, True]))
    def an_operation_ends(self, data, fails) -> None:
        operation = data.draw(st.sampled_from(self.world.pending))
        fallible = isinstance(operation, do.Pull | do.Create | do.Start | do.Stop | do.Remove)
        self.world.complete(operation, "engine_down" if fails and fallible else "")

    @precondition(lambda self: self.world.pending)
    @rule()
    def all_operations_end(self) -> None:
        self.world.complete_all()

    @precondition(lambda self: any(isinstance(op, do.Create) for op in self.world.pending))
    @rule()
    def a_container_is_created_and_the_agent_dies_before_the_answer(self) -> None:
        operation = next(op for op in self.world.pending if isinstance(op, do.Create))
        self.world.create(operation)
        self.world.restart()

    @precondition(lambda self: self.world.running())
    @rule(data=st.data(), code=st.integers(0, 255))
    def a_container_exits(self, data, code) -> None:
        container = data.draw(st.sampled_from(self.world.running()))
        self.world.exit(container.container_id, code)

    @precondition(lambda self: self.world.containers)
    @rule(data=st.data())
    def someone_removes_a_container(self, data) -> None:
        self.world.vanish(data.draw(st.sampled_from(sorted(self.world.containers))))

    @precondition(lambda self: any(log.ended for log in self.world.logs.values()))
    @rule()
    def the_logs_that_ended_are_drained(self) -> None:
        self.world.drain_all()

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 31.0, 400.0]))
    def time_passes(self, seconds) -> None:
        self.world.advance(seconds)

    @rule(seconds=st.sampled_from([1.0, 10.0, 31.0]))
    def the_agent_is_stopped_and_goes_on(self, seconds) -> None:
        self.world.freeze(seconds)

    @precondition(lambda self: self.world.connected)
    @rule()
    def the_link_renewed_the_lease(self) -> None:
        self.world.lease_seen()

    @rule(keep_journal=st.sampled_from([True, True, True, False]))
    def the_agent_is_killed_and_comes_back(self, keep_journal) -> None:
        if not keep_journal:
            self.world.journal.clear()
            self.world.signals.clear()  # what was sent is not known any more
        self.world.restart()

    @rule(uuids=st.sets(st.sampled_from(UUIDS)))
    def processes_stay_on_gpus(self, uuids) -> None:
        self.world.busy = uuids

    @rule(bad=st.sets(st.sampled_from(UUIDS)), lost=st.sets(st.sampled_from(UUIDS)))
    def the_probe_sees(self, bad, lost) -> None:
        self.world.gpus = [gpu(u, healthy=u not in bad) for u in UUIDS if u not in lost]
        self.world.send(ev.GpusSeen(tuple(self.world.gpus)))

    @rule(uuid=st.sampled_from(["", *UUIDS]), xid=st.sampled_from([13, 79]))
    def a_gpu_reports_an_error(self, uuid, xid) -> None:
        self.world.send(ev.XidsSeen(((uuid, xid),)))

    @rule()
    def the_containers_are_listed(self) -> None:
        self.world.look()

    @invariant()
    def what_always_holds(self) -> None:
        validate(self.world.machine)

    def teardown(self) -> None:
        """With a server that wants nothing and an engine that works, everything ends."""
        world = self.world
        world.busy = set()
        for _ in range(6):
            world.advance(60)
            world.disconnect()
            world.welcome()
            world.desire()
            world.look()
            world.settle()
        assert not world.machine.attempts, world.machine.attempts
        assert not world.containers
        assert not world.machine.gpus.holders
        assert not world.journal


TestNode = Node.TestCase
TestNode.settings = settings(
    max_examples=examples(120),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
