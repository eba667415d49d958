"""Random events against a random small cluster: after every tick the plan is valid, does not
depend on any order of the snapshot, leaves no room unused, and respects priority."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.brute_force import could_start
from tests.support.snapshots import committed, gang, member, node, snapshot

from skep_scheduler import engine
from skep_scheduler.gang import kind_of
from skep_scheduler.invariants import validate
from skep_scheduler.plan import Plan
from skep_scheduler.policies import POLICIES, by_name
from skep_scheduler.state import Node, Snapshot

MODELS = ["A100", "V100"]
VCS = ["red", "blue"]
WORDS = ["NV2", "PIX", "PHB", "SYS"]

quotas = st.fixed_dictionaries({model: st.integers(0, 12) for model in MODELS})
machines = st.tuples(
    st.sampled_from([{"A100": 4, "V100": 1}, {"A100": 3}, {"A100": 2, "V100": 2}, {}]),
    st.integers(2, 12),
)
members = st.builds(
    member,
    count=st.sampled_from([1, 1, 1, 2, 3]),
    gpus=st.sampled_from([0, 1, 1, 2, 2, 3, 4]),
    cpus=st.sampled_from([0, 1, 1, 2, 5]),
    gib=st.sampled_from([0, 1, 1, 4]),
    model=st.sampled_from(["A100", "A100", "A100", "V100", None]),
)


class Cluster(RuleBasedStateMachine):
    """What the platform does around the scheduler, in memory."""

    policy = "priority"

    @initialize(shapes=st.lists(machines, min_size=2, max_size=4))
    def build(self, shapes: list[tuple[dict[str, int], int]]) -> None:
        nodes = [node(f"n{i}", gpus, cpus=cpus, gib=8) for i, (gpus, cpus) in enumerate(shapes)]
        self.state = snapshot(nodes, **{vc: {"A100": 12, "V100": 4} for vc in VCS})
        self.lost: list[Node] = []
        self.sick: list[tuple[str, str, str]] = []  # node id, model, UUID
        self.now = 0.0
        self.jobs = 0

    @rule(
        roles=st.lists(members, min_size=1, max_size=2),
        vc=st.sampled_from([*VCS * 4, "nowhere"]),
        priority=st.integers(-1, 2),
        backoff=st.sampled_from([0] * 7 + [2]),
        copies=st.integers(1, 3),
    )
    def submit(self, roles: list, vc: str, priority: int, backoff: int, copies: int) -> None:
        named = [replace(m, role=f"r{i}") for i, m in enumerate(roles)]
        for _ in range(copies):
            self.jobs += 1
            job = gang(f"job{self.jobs:03}", *named, vc=vc, priority=priority, at=self.now,
                       not_before=self.now + backoff)  # fmt: skip
            self.state = replace(self.state, waiting=(*self.state.waiting, job))

    @rule()
    def tick(self) -> None:
        self.now += 1.0
        self.state = committed(self.state, engine.plan(self.state, self.now, by_name(self.policy)))

    @invariant()
    def every_plan_holds(self) -> None:
        """Planning is a question that may be asked at any moment."""
        plan = engine.plan(self.state, self.now, by_name(self.policy))
        validate(self.state, plan, self.now)
        self.same_plan_for_any_order(plan)
        self.nothing_refused_would_fit(plan)
        self.nobody_is_overtaken_by_an_equal(plan)

    @precondition(lambda self: self.state.running)
    @rule(data=st.data())
    def finish_a_gang(self, data: st.DataObject) -> None:
        done = data.draw(st.sampled_from(sorted({r.gang_id for r in self.state.running})))
        left = tuple(r for r in self.state.running if r.gang_id != done)
        self.state = replace(self.state, running=left)

    @precondition(lambda self: self.state.running)
    @rule(data=st.data())
    def release_one_task(self, data: st.DataObject) -> None:
        gone = data.draw(st.integers(0, len(self.state.running) - 1))
        left = tuple(r for i, r in enumerate(self.state.running) if i != gone)
        self.state = replace(self.state, running=left)

    @precondition(lambda self: self.state.nodes)
    @rule(data=st.data(), release=st.booleans())
    def lose_a_node(self, data: st.DataObject, release: bool) -> None:
        """Its tasks may be released at once, or hold quota until its lease is over."""
        gone = data.draw(st.sampled_from(self.state.nodes))
        self.lost.append(gone)
        self.set_nodes([n for n in self.state.nodes if n.id != gone.id])
        if release:
            left = tuple(r for r in self.state.running if r.node_id != gone.id)
            self.state = replace(self.state, running=left)

    @precondition(lambda self: self.lost)
    @rule()
    def return_a_node(self) -> None:
        self.set_nodes([*self.state.nodes, self.lost.pop(0)])

    @precondition(lambda self: self.state.nodes)
    @rule(data=st.data())
    def cordon_or_uncordon(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.state.nodes))
        self.change(replace(chosen, schedulable=not chosen.schedulable))

    @precondition(lambda self: self.state.nodes)
    @rule(data=st.data(), cpus=st.integers(0, 12))
    def resize(self, data: st.DataObject, cpus: int) -> None:
        chosen = data.draw(st.sampled_from(self.state.nodes))
        self.change(replace(chosen, cpu_millis=cpus * 1000))

    @precondition(lambda self: any(uuids for n in self.state.nodes for uuids in n.gpus.values()))
    @rule(data=st.data())
    def break_a_gpu(self, data: st.DataObject) -> None:
        gpus = [(n, m, uuid) for n in self.state.nodes for m, all_ in n.gpus.items()
                for uuid in all_]  # fmt: skip
        chosen, model, uuid = data.draw(st.sampled_from(gpus))
        self.sick.append((chosen.id, model, uuid))
        healthy = tuple(u for u in chosen.gpus[model] if u != uuid)
        self.change(replace(chosen, gpus={**chosen.gpus, model: healthy}))

    @precondition(lambda self: self.sick)
    @rule()
    def heal_a_gpu(self) -> None:
        node_id, model, uuid = self.sick.pop(0)
        for n in [*self.state.nodes, *self.lost]:
            if n.id == node_id:
                healed = replace(n, gpus={**n.gpus, model: (*n.gpus[model], uuid)})
                self.change(healed)
                self.lost = [healed if other.id == node_id else other for other in self.lost]

    @precondition(lambda self: self.state.nodes)
    @rule(data=st.data())
    def learn_a_topology(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.state.nodes))
        uuids = sorted(uuid for all_ in chosen.gpus.values() for uuid in all_)
        pairs = {
            a: {b: data.draw(st.sampled_from(WORDS)) for b in uuids[i + 1 :]}
            for i, a in enumerate(uuids)
        }
        self.change(replace(chosen, topology=pairs))

    @rule(vc=st.sampled_from(VCS), quota=quotas)
    def change_a_quota(self, vc: str, quota: dict[str, int]) -> None:
        vcs = tuple(replace(v, quota=quota) if v.name == vc else v
                    for v in self.state.virtual_clusters)  # fmt: skip
        self.state = replace(self.state, virtual_clusters=vcs)

    def change(self, changed: Node) -> None:
        self.set_nodes([changed if n.id == changed.id else n for n in self.state.nodes])

    def set_nodes(self, nodes: list[Node]) -> None:
        self.state = replace(self.state, nodes=tuple(nodes))

    def same_plan_for_any_order(self, plan: Plan) -> None:
        again = engine.plan(shuffled(self.state), self.now, by_name(self.policy))
        assert again.placements == plan.placements
        assert list(again.reasons.items()) == list(plan.reasons.items())

    def nothing_refused_would_fit(self, plan: Plan) -> None:
        later = committed(self.state, plan)
        for job in later.waiting:
            if plan.reasons[job.id].code not in ("backoff", "unknown_vc"):
                assert not could_start(later, job), (job, plan.reasons[job.id])

    def nobody_is_overtaken_by_an_equal(self, plan: Plan) -> None:
        placed = {p.gang_id for p in plan.placements}
        due = [g for g in self.state.waiting if g.not_before <= self.now]
        for overtaken in (g for g in due if g.id not in placed):
            for other in (g for g in due if g.id in placed):
                if kind_of(other) == kind_of(overtaken):
                    assert other.priority >= overtaken.priority


def shuffled(state: Snapshot) -> Snapshot:
    """The same facts in another order, down to the order of UUIDs and of dictionaries."""
    rng = random.Random(len(state.waiting) * 31 + len(state.running))

    def mix(items: tuple) -> tuple:
        return tuple(rng.sample(items, len(items)))

    def mix_node(n: Node) -> Node:
        gpus = {model: mix(n.gpus[model]) for model in mix(tuple(n.gpus))}
        return replace(n, gpus=gpus, topology={a: n.topology[a] for a in mix(tuple(n.topology))})

    return Snapshot(
        nodes=mix(tuple(mix_node(n) for n in state.nodes)),
        virtual_clusters=mix(
            tuple(
                replace(vc, quota={m: vc.quota[m] for m in mix(tuple(vc.quota))})
                for vc in state.virtual_clusters
            )
        ),
        waiting=mix(state.waiting),
        running=mix(state.running),
    )


SETTINGS = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_any_events_under(policy: str) -> None:
    machine = type("ClusterUnderPolicy", (Cluster,), {"policy": policy})
    run_state_machine_as_test(machine, settings=SETTINGS)
