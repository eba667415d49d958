"""Lives of small clusters under chosen policies: what happens is drawn, and what must hold of every
plan is checked at every plan.

A life is a list of happenings, each with numbers that pick what it happens to among what is there
then, so that every list is a life.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node
from tests.support.plans import lines_of, plan_of, rebuilt

from skep_scheduler import policies
from skep_scheduler.model import (
    Claim,
    Code,
    ElasticRange,
    Gang,
    Node,
    Options,
    Plan,
    PolicyChoice,
    VirtualCluster,
)
from skep_scheduler.placement.base import Found
from skep_scheduler.placement.cells_placer import find
from skep_scheduler.policies.base import BackfillMode

MOST_PLANS = 40  # at one moment
# A gang waits for good if its virtual cluster does not own what it asks for.
NEVER_STARTS = {Code.NEVER_FITS_VC, Code.LEAF_TYPE_NOT_OWNED, Code.VC_OWNS_NOTHING}
# Beside the defaults of every policy. A policy with parameters has to be here.
MORE: dict[str, tuple[dict[str, Any], ...]] = {
    "priority_ageing": ({"ageing_s": 20.0, "ageing_limit": 3}, {"ageing_limit": 0}),
    "fifo": ({"backfill": "skip"}, {"backfill": "reserve"}),
    "sjf": ({"weigh_by_gpus": "yes"}, {"backfill": "reserve"}),
    "ljf": ({"backfill": "block"},),
    "smallest": ({"backfill": "reserve"},),
    "largest": ({"backfill": "block"},),
    "pai_sjf": ({"backfill": "reserve"},),
    "lucid_order": ({"backfill": "block"},),
    "tiresias": (
        {"first_limit_gpu_s": 40, "second_limit_gpu_s": 200},
        {"first_limit_gpu_s": 100, "second_limit_gpu_s": 0},
    ),
    "tiresias_gittins": (
        {"first_limit_gpu_s": 40, "second_limit_gpu_s": 200, "quantum_gpu_s": 30},
        {"first_limit_gpu_s": 100, "second_limit_gpu_s": 0},
    ),
    "edf": ({"admission": "refuse"},),
    "mlfs": ({"alpha": 0.0, "round_s": 20.0}, {"normalise": "no", "round_s": 20.0}),
    "chronus": (
        {"term_s": 20.0, "patience_s": 100.0},
        {"term_s": 60.0, "fill": "srtf", "admission": "warn"},
    ),
    "themis": ({"round_s": 20.0, "fairness": 0.0}, {"round_s": 60.0}),
    "drf": ({"term_s": 30.0}, {"term_s": 100.0, "weights": "ann:3"}),
    "gandiva_trading": ({"round_s": 20.0}, {"round_s": 60.0, "tickets": "ann:3"}),
    "gandiva_fair": ({"round_s": 20.0}, {"round_s": 60.0, "tickets": "ann:3"}),
    "stride": ({"round_s": 20.0}, {"round_s": 60.0, "tickets": "ann:3"}),
    "gavel": (
        {"round_s": 20.0, "speeds": "A100:2"},
        {"round_s": 60.0, "objective": "max_sum", "weights": "ann:3"},
        {"round_s": 20.0, "objective": "water_filling"},
        {"round_s": 20.0, "objective": "ftf"},
        {"round_s": 20.0, "objective": "min_makespan"},
    ),
    "afs": ({"future": "next", "hold": 2.0},),
    "coddl": ({"hold": 0.0},),
    "optimus": ({"interval_s": 20.0},),
    "karuna": ({"durations": "unknown", "round_s": 20.0},),
    "elasticflow": ({"admission": "warn", "slot_s": 10.0},),
}
CHOICES = tuple(
    PolicyChoice(name, tuple(sorted(parameters.items())))
    for name in policies.names()
    for parameters in ({}, *MORE.get(name, ()))
)


def name_of(choice: PolicyChoice) -> str:
    """Return a policy with its parameters as the name of a test."""
    return "-".join([choice.name, *(f"{name}={value}" for name, value in choice.parameters)])


each_choice = pytest.mark.parametrize("choice", CHOICES, ids=name_of)
# Parameters other than the defaults with `make test-long`; of every choice `each_choice` has some
# law in any case.
each_default = pytest.mark.parametrize(
    "choice",
    [
        pytest.param(choice, marks=[pytest.mark.long] if choice.parameters else [])
        for choice in CHOICES
    ],
    ids=name_of,
)
# A few examples by default, and many with `make test-long`.
few_and_many = pytest.mark.parametrize(
    "examples", [2, pytest.param(150, marks=pytest.mark.long)], ids=["few", "many"]
)


def backfill_mode_of(choice: PolicyChoice) -> BackfillMode:
    """Return what happens behind a gang that finds no place."""
    made = policies.check(choice)(**dict(choice.parameters))
    return getattr(made, "backfill_mode", BackfillMode.SKIP)


@dataclass(frozen=True, slots=True)
class Life:
    """What happens to a cluster: `happenings` in order, with a plan behind each."""

    happenings: tuple[tuple[Any, ...], ...]
    others: PolicyChoice  # the policy of the second virtual cluster
    options: Options
    keep_progress: bool


PICK = st.integers(0, 5)
GOOD = st.sampled_from([True, True, False])
SUBMIT = st.tuples(
    st.just("submit"),
    st.integers(1, 4),  # gangs
    st.sampled_from("aaabbc"),
    st.sampled_from([(1, 1), (1, 1), (1, 2), (2, 1), (3, 1), (1, 4), (2, 2), (1, 3)]),
    st.sampled_from([None, None, "A100", "A100", "V100"]),
    st.sampled_from([-1, 0, 0, 0, 1]),
    st.sampled_from([None, 70.0, 300.0, 300.0]),  # how long it runs
    st.booleans(),  # whether it is known how long
    st.sampled_from([None, 50.0, 400.0]),  # until its deadline
    st.sampled_from(["ann", "bob", "cem"]),
    st.sampled_from(["", "", "", "", "lazy", "firm", "incremental", "elastic", "elastic"]),
)
WAIT = st.tuples(st.just("wait"), st.sampled_from([0.0, 1.0, 10.0, 30.0, 60.0, 200.0]))
TROUBLE = st.one_of(
    WAIT,
    st.tuples(st.just("end"), PICK),
    st.tuples(st.just("drain"), PICK),
    st.tuples(st.just("node"), PICK, GOOD),
    st.tuples(st.just("gpu"), PICK, GOOD),
)
HAPPENINGS = st.lists(st.tuples(SUBMIT, TROUBLE, WAIT), min_size=4, max_size=10).map(
    lambda drawn: tuple(one for some in drawn for one in some)
)
OPTIONS = st.builds(
    Options,
    starvation_s=st.sampled_from([1e9, 1e9, 100.0]),
    min_run_s=st.sampled_from([0.0, 10.0, 60.0]),
    opportunistic_min_run_s=st.sampled_from([0.0, 10.0]),
    leave_s=st.just(5.0),
    resize_hold_s=st.sampled_from([0.0, 30.0, 600.0]),
)
LIVES = st.builds(Life, HAPPENINGS, st.sampled_from(CHOICES), OPTIONS, st.booleans())

NODES = (
    *(node(f"a{i}", 4) for i in range(3)),
    node("v0", 4, "V100"),
)
CLAIMS = {
    "a": (Claim("", "A100", 6), Claim("", "V100", 2)),
    "b": (Claim("", "A100", 4), Claim("", "V100", 1)),
    "c": (),  # it only uses what is idle
}


class LawfulCluster(Cluster):
    """A cluster that checks at every plan what must hold under every policy."""

    def __init__(self, choice: PolicyChoice, life: Life) -> None:
        chosen = {"a": choice, "b": life.others}
        vcs = [
            VirtualCluster(name, claims, chosen.get(name, PolicyChoice()))
            for name, claims in CLAIMS.items()
        ]
        super().__init__(NODES, vcs, life.options, keep_progress=life.keep_progress)
        self.choices = chosen
        self.plans = 0

    def plan(self) -> Plan:
        state, carried_over = self.state, self.state.reservations
        decided = super().plan()  # validates the cells, and that planning leaves nothing behind
        self.plans += 1
        reserved, said = state.reservations, lines_of(decided)
        state.set_reservations(carried_over)
        assert plan_of(state, self.now, self.options) == said, "a second plan differs"
        other = rebuilt(state, seed=self.plans)
        assert plan_of(other, self.now, self.options) == said, "facts in another order count"
        state.set_reservations(reserved)
        self._check_victims(decided)
        self._check_reasons(decided)
        return decided

    def tick(self) -> Plan:
        decided = super().tick()
        self.state.validate()
        for made in decided.preemptions:
            assert self.state.is_nominated(made.gang), "its victims leave in vain"
        self._check_holders()
        return decided

    def settle(self) -> Plan:
        """Plan until there is nothing more to do at this moment."""
        for _ in range(MOST_PLANS):
            decided = self.tick()
            lists = (decided.placements, decided.preemptions, decided.cancels, decided.downgrades)
            if not any(lists) and not decided.restored and not decided.resizes:
                return decided
        raise AssertionError(f"planning does not come to rest: {lines_of(decided)}")

    def all_is_healthy(self) -> bool:
        return all(
            known.schedulable and all(device.healthy for device in known.devices)
            for known in self.state.nodes.values()
        )

    def _check_holders(self) -> None:
        """No GPU has two gangs, a gang that is placed has exactly the GPUs that it asked for, and
        guaranteed gangs have no more than their virtual cluster owns."""
        state, used = self.state, Counter[str]()
        by_vc: Counter[tuple[str, str]] = Counter()
        for gang_id, held in state.running.items():
            assert gang_id not in state.waiting
            for task in held.tasks:
                (asked,) = {m.gpus for m in held.gang.members if m.role == task.role}
                assert len(task.gpu_uuids) == asked
                used.update(task.gpu_uuids)
                if state.is_guaranteed(gang_id) and not held.leaving:
                    by_vc.update((held.gang.vc, state.models[uuid]) for uuid in task.gpu_uuids)
            assert held.gang.incremental or len(held.tasks) == held.gang.tasks
        assert all(count == 1 for count in used.values()), "a GPU has two gangs"
        owned = {(vc, claim.cell_type): claim.number for vc in CLAIMS for claim in CLAIMS[vc]}
        for key, gpus in by_vc.items():
            assert gpus <= owned.get(key, 0), f"{key} holds more than it owns"

    def _check_victims(self, decided: Plan) -> None:
        """A guaranteed gang leaves only for one of its own virtual cluster."""
        for made in decided.preemptions:
            by = self.state.waiting[made.gang]
            assert not by.opportunistic
            for victim in made.victims:
                known = self.state.running[victim.gang].gang
                if self.state.is_guaranteed(victim.gang):
                    assert known.vc == by.vc
                    assert known.priority <= by.priority
                    assert known.preemptible

    def _check_reasons(self, decided: Plan) -> None:
        state = self.state
        acting = {one.gang for one in (*decided.placements, *decided.preemptions)}
        for gang_id, reason in decided.cancels.items():
            # The next plan says why it waits again.
            assert reason.message
            assert gang_id in state.nominated
        for gang_id in state.waiting.keys() - acting - decided.cancels.keys():
            reason = decided.reasons[gang_id]
            assert reason.code in set(Code)
            assert reason.message
            assert reason.details["told_at"] == self.now


def live(choice: PolicyChoice, life: Life) -> LawfulCluster:
    """Return the cluster at the end of a life."""
    cluster = LawfulCluster(choice, life)
    for number, (what, *how) in enumerate(life.happenings):
        _HAPPEN[what](cluster, number, *how)
        settled = cluster.settle()
        check_conservation(cluster)
        check_work_conservation(cluster, settled)
    return cluster


def check_conservation(cluster: Cluster) -> None:
    """Every gang waits, runs or has ended."""
    state = cluster.state
    known = {*state.waiting, *state.running}
    ended = {gang_id for gang_id, past in cluster.history.items() if past.ended_at is not None}
    assert known | ended == cluster.history.keys()
    assert not known & ended
    assert state.nominated.keys() <= state.waiting.keys()


def check_work_conservation(cluster: LawfulCluster, settled: Plan) -> None:
    """No gang waits beside idle places that it could have, but where its policy holds it back for
    another one; and a policy that lets later gangs start holds none back."""
    state = cluster.state
    unsettled = {Code.VICTIMS_TOO_YOUNG, Code.COOLING_DOWN}
    codes = {reason.code for reason in settled.reasons.values()}
    if state.nominated or codes & unsettled or any(h.leaving for h in state.running.values()):
        return
    for waiting in state.waiting.values():
        code = settled.reasons[waiting.id].code
        choice = cluster.choices.get(waiting.vc, PolicyChoice())
        skips = cluster.options.starvation_s == 1e9 and not waiting.opportunistic
        skips = skips and backfill_mode_of(choice) is BackfillMode.SKIP
        if code == Code.HELD_BACK:
            assert not waiting.opportunistic
            assert not skips, f"{waiting.id} is held back"
            continue
        tasks = [(0, 0)] if waiting.incremental else None
        tries = cluster.options.placement_tries
        found = find(state, waiting, state.kind_of(waiting), tries, tasks)
        idle = isinstance(found, Found) and not found.victims and not found.cancels
        assert not idle, f"{waiting.id} waits beside places that it could have: {code}"
        if skips and waiting.gpus == 1 and waiting.priority == 0 and cluster.all_is_healthy():
            _check_all_is_used(cluster, waiting)


def _check_all_is_used(cluster: LawfulCluster, waiting: Gang) -> None:
    """A gang of one GPU waits only where guaranteed gangs have all that its virtual cluster owns of
    one model: which one it is that it is refused on may be any that it accepts."""
    state, used = cluster.state, Counter[str]()
    for gang_id, held in state.running.items():
        if held.gang.vc == waiting.vc and state.is_guaranteed(gang_id):
            used.update(state.models[uuid] for task in held.tasks for uuid in task.gpu_uuids)
    wanted = waiting.members[0].gpu_model
    for claim in CLAIMS[waiting.vc]:
        if wanted in (None, claim.cell_type):
            assert used[claim.cell_type] == claim.number, f"{waiting.id} waits beside idle GPUs"


def _submit(
    cluster: Cluster,
    number: int,
    copies: int,
    vc: str,
    size: tuple[int, int],
    model: str | None,
    priority: int,
    runs_s: float | None,
    known: bool,
    due_in: float | None,
    owner: str,
    habit: str,
) -> None:
    elastic = ElasticRange(1, 2 * size[0], size[0]) if habit == "elastic" else None
    for copy in range(copies):
        name = f"g{number:02}{'abcd'[copy]}"
        if runs_s is not None:
            cluster.lifetimes[name] = runs_s
        one = gang(
            name,
            vc,
            priority=priority,
            at=cluster.now,
            members=[member(*size, gpu_model=model, elastic=elastic)],
            duration_s=runs_s if known else None,
            deadline_at=None if due_in is None else cluster.now + due_in,
            owner=owner,
            lazy=habit == "lazy",
            preemptible=habit != "firm",
            incremental=habit == "incremental",
            speeds=(("A100", 2.0), ("V100", 1.0)) if number % 3 == 0 else (),
        )
        cluster.submit(one)


def _wait(cluster: Cluster, number: int, seconds: float) -> None:
    cluster.advance(cluster.now + seconds, step_s=20.0)


def _end(cluster: Cluster, number: int, pick: int) -> None:
    known = sorted({*cluster.state.waiting, *cluster.state.running})
    if known:
        cluster.end(known[pick % len(known)])


def _drain(cluster: Cluster, number: int, pick: int) -> None:
    running = [g for g in sorted(cluster.state.running) if not cluster.state.running[g].leaving]
    if running:
        cluster.ask_to_leave(running[pick % len(running)])


def _node(cluster: Cluster, number: int, pick: int, good: bool) -> None:
    one = _picked(cluster, pick)
    cluster.state.set_node(replace(one, schedulable=good))


def _gpu(cluster: Cluster, number: int, pick: int, good: bool) -> None:
    one = _picked(cluster, pick)
    first, *others = one.devices
    cluster.state.set_node(replace(one, devices=(replace(first, healthy=good), *others)))


def _picked(cluster: Cluster, pick: int) -> Node:
    names: Sequence[str] = sorted(cluster.state.nodes)
    return cluster.state.nodes[names[pick % len(names)]]


_HAPPEN = {
    "submit": _submit,
    "wait": _wait,
    "end": _end,
    "drain": _drain,
    "node": _node,
    "gpu": _gpu,
}


def heal(cluster: Cluster) -> None:
    """Make all hardware good again."""
    for one in list(cluster.state.nodes.values()):
        devices = tuple(replace(device, healthy=True) for device in one.devices)
        cluster.state.set_node(replace(one, devices=devices, schedulable=True))
