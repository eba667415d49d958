"""What holds under every policy that is simulated on any trace, whatever jobs come: no job is lost,
none is faster than it can be, no GPU is used twice over, and equal jobs give equal figures.

A policy that is registered is tested here.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.policy_lives import few_and_many

from skep_scheduler.simulator.clusters import Hardware
from skep_scheduler.simulator.presets import registry
from skep_scheduler.simulator.readers import Trace
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import TraceJob

NATIVE = sorted(registry.find("native").policies)
# Those that admit by deadline may refuse a job. The others have to end every one.
ADMITTING = {"chronus", "elasticflow"}
GPUS = 16
# Those that give a job more GPUs than it asks for run it faster, by linear speed-up here.
GROWING = {"afs", "coddl", "dl2", "elasticflow", "gandiva", "karuna", "optimus"}
# With more CPU and memory than its share, as it is assumed of loads.
MOST_BY_CPU = {"synergy": 4.0}
SLOT_S = {"dl2": 120.0, "optimus": 600.0}
JOBS = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 200),
        st.sampled_from([1, 1, 2, 4, 8]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from([None, 2.0, 20.0]),
    ),
    min_size=1,
    max_size=14,
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


def outcome_of(policy: str, trace: Trace) -> Outcome:
    """Run a policy on two nodes. `Outcome.check` asserts conservation in each run."""
    hardware = Hardware.of_shape("2x8xV100")
    return registry.find("native").run(registry.Setup(trace, hardware, policy, speedup="linear"))


@few_and_many
@pytest.mark.parametrize("policy", NATIVE)
def test_every_job_ends_once_and_none_before_it_can(policy: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(facts=JOBS)
    def holds(facts: Any) -> None:
        trace = trace_of(facts)
        made = outcome_of(policy, trace)
        assert {job.id for job in made.jobs} == {job.id for job in trace.jobs}
        for job in made.jobs:
            if job.refused:
                assert policy in ADMITTING
                continue
            assert job.started_at is not None
            assert job.ended_at is not None
            assert job.submitted_at - 1e-6 <= job.started_at <= job.ended_at
            assert 0 <= job.held_s <= job.jct_s + 1e-6
            best = GPUS / job.gpus if policy in GROWING else MOST_BY_CPU.get(policy, 1.0)
            assert job.jct_s >= job.duration_s / best - 1e-3, job
        assert all(0 <= used <= GPUS for _, _, used in made.series)
        figures = made.figures()
        assert 0 <= figures["utilisation"] <= 1 + 1e-9
        assert figures["deadlines_met"] <= figures["deadlines"]
        assert outcome_of(policy, trace).figures() == figures

    holds()


@pytest.mark.parametrize("policy", sorted({*NATIVE} - ADMITTING))
def test_a_job_alone_waits_for_nothing(policy: str) -> None:
    """But for the next slot, where a policy decides at slots alone."""
    (job,) = outcome_of(policy, trace_of([(5, 130, 2, "ann", None)])).jobs
    best = GPUS / job.gpus if policy in GROWING else MOST_BY_CPU.get(policy, 1.0)
    assert 130.0 / best - 1e-3 <= job.jct_s <= 130.0 + SLOT_S.get(policy, 0.0) + 1e-3
