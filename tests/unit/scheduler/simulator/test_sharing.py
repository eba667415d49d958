"""The event kernel of policies that put several jobs on one GPU, on small traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_scheduler import policies
from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.policies.gandiva import GandivaPolicy
from skep_scheduler.policies.lucid import Lucid
from skep_scheduler.policies.packing import HostDemand, Machines, PackedFacts, PackingPolicy
from skep_scheduler.policies.salus import Salus
from skep_scheduler.policies.synergy import Synergy
from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs
from skep_scheduler.simulator.event_loop import US
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.sharing import SharedJobRun, SharingRun, Speeds
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

MACHINES = Machines((tuple(range(4)), tuple(range(4, 8))), 3.0, 62.5)
IMAGE, LANGUAGE = HostDemand(9.0, 100.0, 0.6), HostDemand(1.0, 20.0, 1.0)
Drawn = list[tuple[int, int, int, float, float, bool]]
POLICIES = (
    GandivaPolicy(), GandivaPolicy(pack="no", grow="no"), Lucid(), Lucid(sharing="always"),
    Salus(), Salus(turns="srtf"), Salus(turns="pack"), Synergy(), Synergy(order="las"),
)  # fmt: skip


def simulate(drawn: Drawn, policy: PackingPolicy, speeds: Speeds | None = None) -> Outcome:
    runs = []
    for n, (at, run, gpus, use, memory, image) in enumerate(drawn):
        trace = TraceJob(f"j{n}", float(at), float(run), gpus)
        demand = IMAGE if image else LANGUAGE
        facts = PackedFacts(
            trace.id, trace.submit_s, gpus, trace.duration_s, use, memory, memory / 4, demand
        )
        runs.append(SharedJobRun(trace, facts, trace.duration_s, at * US, at * US))
    return SharingRun(runs, policy, MACHINES, speeds or Speeds()).run()


traces = st.lists(
    st.tuples(
        st.integers(0, 2000),
        st.integers(1, 2000),
        st.sampled_from((1, 2, 3, 4, 8)),
        st.floats(0.1, 1.0),
        st.floats(0.1, 1.0),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=60, deadline=None)
@given(traces, st.sampled_from(POLICIES))
def test_every_job_ends_and_none_before_its_work_can_be_done(
    drawn: Drawn, policy: PackingPolicy
) -> None:
    outcome = simulate(drawn, policy)
    for (at, run, gpus, *_), job in zip(drawn, outcome.jobs, strict=True):
        best = 4 / gpus if isinstance(policy, GandivaPolicy) and gpus < 4 else 1.0
        best = 3.0 if isinstance(policy, Synergy) else best  # with 9 CPUs in place of 3
        assert job.ended_at is not None
        assert job.ended_at >= at + run / best - 1e-5
    assert outcome.figures() == simulate(drawn, policy).figures()


@settings(max_examples=30, deadline=None)
@given(traces)
def test_lucid_and_salus_preempt_no_job(drawn: Drawn) -> None:
    for policy in (Lucid(sharing="always"), Salus()):
        assert simulate(drawn, policy).figures()["preemptions"] == 0


@settings(max_examples=30, deadline=None)
@given(traces)
def test_under_synergy_no_job_holds_gpus_longer_than_with_its_share(drawn: Drawn) -> None:
    for (_, run, *_), job in zip(drawn, simulate(drawn, Synergy()).jobs, strict=True):
        assert job.held_s <= run + 1e-4


def test_two_jobs_on_one_gpu_slow_each_other_by_what_they_use() -> None:
    """.75 + .5 = 1.25: both run at .8, and no restart is paid."""
    drawn = [(0, 100, 8, 0.75, 0.3, False), (0, 100, 8, 0.5, 0.3, False)]
    outcome = simulate(drawn, Lucid(sharing="always", score_limit=4), Speeds(restart_s=30.0))
    assert [job.ended_at for job in outcome.jobs] == [125.0, 125.0]
    assert outcome.figures()["jobs_per_gpu"] == 2.0
    assert outcome.figures()["utilisation"] == 1.0, "a GPU with two jobs counts once"
    pairs = Speeds(beside=lambda job, other: 0.5 if job.id == "j0" else 1.0)
    outcome = simulate(drawn, Lucid(sharing="always", score_limit=4), pairs)
    assert [job.ended_at for job in outcome.jobs] == [150.0, 100.0]


def test_a_turn_of_gandiva_costs_a_restart() -> None:
    drawn = [(0, 120, 8, 0.9, 0.9, False), (0, 120, 8, 0.9, 0.9, False)]
    free = simulate(drawn, GandivaPolicy())
    paid = simulate(drawn, GandivaPolicy(), Speeds(restart_s=10.0))
    assert [job.ended_at for job in free.jobs] == [180.0, 240.0]
    assert [job.preemptions for job in free.jobs] == [1, 1]
    assert max(job.ended_at or 0.0 for job in paid.jobs) == 280.0


# From the command line


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(
        "id,submit_s,duration_s,gpus,model\na,0,800,4,x\nb,1,80,4,x\n", encoding="utf-8"
    )
    return path


def run(trace: Path, policy: str, **request: Any) -> dict[str, Any]:
    (only,) = plan_runs(SimulateRequest(trace, "1x4xV100", (policy,), **request))
    return execute(only)[0]


def test_the_line_says_that_loads_are_assumed(trace: Path) -> None:
    assert run(trace, "lucid")["loads"] == "assumed"
    for policy in ("gandiva:quantum_s=30", "lucid:sharing=never", "salus:turns=srtf", "synergy"):
        assert run(trace, policy)["finished"] == 2


def test_pairs_of_a_throughput_file_count(trace: Path, tmp_path: Path) -> None:
    kind = "('x', 4)"
    file = tmp_path / "throughputs.json"
    file.write_text(json.dumps({"v100": {kind: {"null": 10.0, kind: [9.0, 9.0]}}}), "utf-8")
    line = run(trace, "salus:turns=pack", profiles=file)
    assert line["loads"] == "pairs+assumed"
    with pytest.raises(WorkloadError) as error:
        run(trace, "salus", profiles=tmp_path)
    assert error.value.code == "bad_profile"


def test_profiles_by_size_are_refused(trace: Path) -> None:
    with pytest.raises(WorkloadError) as error:
        run(trace, "gandiva", speedup="profile")
    assert error.value.code == "bad_option"


@pytest.mark.parametrize("name", ["gandiva", "lucid", "salus", "synergy"])
def test_a_virtual_cluster_cannot_choose_it_and_the_error_says_why(name: str) -> None:
    with pytest.raises(policies.PolicyError) as error:
        policies.make(PolicyChoice(name), DEFAULTS)
    assert error.value.code == "policy_simulated_only"
    assert "agents" in error.value.message
