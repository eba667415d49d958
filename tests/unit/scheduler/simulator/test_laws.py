"""Laws that hold under every policy that there is, simulated or live: no job is lost, no GPU is
held twice over, time does not run backwards, and equal requests give equal answers.

A policy that is registered is tested here: there is no list to forget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler import engine, policies
from skep_scheduler.model import Options, PolicyChoice
from skep_scheduler.simulator import command
from skep_scheduler.simulator.presets import registry
from skep_scheduler.simulator.readers import Trace
from skep_scheduler.simulator.workload import TraceJob

NATIVE = sorted(registry.find("native").policies)
# Those that admit by deadline may refuse a job. The others have to end every one.
ADMITTING = {"chronus", "elasticflow"}
JOBS = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 200),
        st.sampled_from([1, 1, 2, 4, 8]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from([None, 2.0, 20.0]),
    ),
    min_size=1,
    max_size=10,
)


def trace_of(facts: Any) -> Trace:
    jobs = [
        TraceJob(
            f"j{n}",
            float(at),
            float(seconds),
            gpus,
            user=user,
            deadline_s=None if slack is None else at + slack * seconds + 100,
        )
        for n, (at, seconds, gpus, user, slack) in enumerate(facts)
    ]
    return Trace("made", "csv", tuple(sorted(jobs, key=lambda job: job.submit_s)))


def line_of(policy: str, trace: Trace) -> dict[str, Any]:
    request = command.SimulateRequest(cluster="2x8xV100", policies=(policy,), jobs=1)
    (run,) = command.plan_runs(request)
    line, _ = command.execute(replace(run, trace=trace))
    return {name: value for name, value in line.items() if name != "wall_s"}


@pytest.mark.parametrize("policy", NATIVE)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(facts=JOBS)
def test_no_job_is_lost_and_equal_jobs_give_equal_figures(policy: str, facts: Any) -> None:
    """`Outcome.check` asserts conservation in each run."""
    trace = trace_of(facts)
    line = line_of(policy, trace)
    assert line["jobs"] == len(facts) == line["finished"] + line["refused"]
    assert line["refused"] == 0 or policy in ADMITTING
    assert 0 <= line["utilisation"] <= 1 + 1e-9
    assert line["deadlines_met"] <= line["deadlines"]
    assert line == line_of(policy, trace)


def facts_of(name: str, mix: Any) -> Cluster:
    """Return a cluster on which some gangs run, where they find places, and the others wait."""
    vcs = [replace(vc, policy=PolicyChoice(name)) for vc in owns(a=8, b=8)]
    cluster = Cluster([node("n0"), node("n1")], vcs, Options(starvation_s=1e9))
    gangs = [
        (
            early,
            gang(f"g{n}", vc, gpus=gpus, priority=priority, at=n, duration_s=60.0 + n, owner=owner),
        )
        for n, (gpus, vc, priority, early, owner) in enumerate(mix)
    ]
    cluster.submit(*(one for early, one in gangs if early))
    cluster.tick()
    cluster.submit(*(one for early, one in gangs if not early))
    return cluster


MIXES = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([-1, 0, 10]),
        st.booleans(),
        st.sampled_from(["ann", "bob"]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("name", policies.names())
@settings(max_examples=8, deadline=None)
@given(mix=MIXES, order=st.randoms(use_true_random=False))
def test_equal_facts_have_an_equal_plan_in_whatever_order_they_came(
    name: str, mix: Any, order: Any
) -> None:
    first = facts_of(name, mix)
    again = facts_of(name, mix)
    shuffled = list(again.state.waiting.values())
    order.shuffle(shuffled)
    for one in shuffled:
        again.state.forget(one.id)
    for one in shuffled:
        again.state.set_waiting(one)
    now = 1000.0
    plans = [engine.plan(cluster.state, now) for cluster in (first, again)]
    assert plans[0].placements == plans[1].placements
    assert plans[0].preemptions == plans[1].preemptions
    assert plans[0].reasons == plans[1].reasons
    # To decide again changes nothing: what was planned is a function of the facts.
    assert engine.plan(first.state, now).placements == plans[0].placements
