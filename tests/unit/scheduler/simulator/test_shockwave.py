"""The preset `shockwave`: rounds, changing batch sizes, fairness, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.traces import trace

from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs
from skep_scheduler.simulator.presets import batch_sizes
from skep_scheduler.simulator.presets.shockwave import EpochJob, FifoShares
from skep_scheduler.simulator.presets.shockwave_runs import POLICIES
from skep_scheduler.simulator.speed import read_typed_profiles
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

BATCHES = (16, 32, 64, 128, 256)
RATES = {
    str((f"ResNet-18 (batch size {batch})", gpus)): {"null": 10.0 * 128 / batch}
    for batch in BATCHES
    for gpus in (1, 2, 4)
}
PUBLISHED = "shockwave/220_0.2_5_100_25_4_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace"


def line(
    steps: int, arrival: float = 0.0, gpus: int = 1, mode: str = "static", batch: int = 128
) -> str:
    cells = (f"ResNet-18 (batch size {batch})", "python3 main.py", "cifar10", "--num_steps", 1)
    return "\t".join(str(c) for c in (*cells, steps, gpus, mode, 1, "-1.000000", 100, arrival))


def simulate(folder: Path, lines: list[str], policy: str, cluster: str = "1x1xV100") -> Any:
    (folder / "tacc_throughputs.json").write_text(json.dumps({"v100": RATES}))
    path = folder / "small.trace"
    path.write_text("\n".join(lines) + "\n")
    request = SimulateRequest(path, preset="shockwave", cluster=cluster, policies=(policy,))
    (only,) = plan_runs(request)
    return execute(only)[0]


def job(tmp_path: Path, steps: int, mode: str = "gns", batch: int = 128) -> EpochJob:
    file = tmp_path / "rates.json"
    file.write_text(json.dumps({"v100": RATES}))
    own = TraceJob(
        "0", 0.0, 1.0, 1, model=f"ResNet-18 (batch size {batch})", batch=batch,
        iterations=steps, mode=mode,
    )  # fmt: skip
    return EpochJob(0, own, read_typed_profiles(file))


@pytest.mark.parametrize(("overhead", "jct"), [("", 190.0), (":overhead_s=0", 180.0)])
def test_a_job_makes_no_steps_in_its_first_20_seconds(
    tmp_path: Path, overhead: str, jct: float
) -> None:
    """Of two jobs of 120 s on one GPU the second runs from 120 s on: 1,000 of its 1,200 steps in
    the first round, and 20 s more. The first round of all is free."""
    found = simulate(tmp_path, [line(1200), line(1200)], "fifo" + overhead)
    assert (found["avg_jct_s"], found["finished"]) == (jct, 2)
    assert found["makespan_s"] == 2 * jct - 120


def test_jobs_take_turns_when_they_have_equal_shares(tmp_path: Path) -> None:
    """Rounds go A B B A: after its round one of equal share has had a larger part of the time."""
    found = simulate(tmp_path, [line(2400), line(2400)], "gandiva_fair:overhead_s=0")
    assert found["makespan_s"] == 480.0
    assert found["preemptions"] >= 1
    assert found["utilisation"] == 1.0


def test_rho_is_the_time_by_that_alone_and_by_the_crowd(tmp_path: Path) -> None:
    """Alone a job takes seven epochs of 50,000 / 128 steps; two jobs on one GPU share it."""
    found = simulate(tmp_path, [line(2400), line(2400)], "fifo:overhead_s=0")
    alone = 7 * 50_000 / 128 / 10
    assert found["rho_max"] == pytest.approx(480 / (2 * alone), abs=1e-5)
    assert found["rho_mean"] == pytest.approx(360 / (2 * alone), abs=1e-5)
    # Over its life the second had two rounds with the first, and two alone.
    assert found["rho_life_max"] == pytest.approx(480 / (1.5 * alone), abs=1e-5)
    assert (found["unfair_share"], found["unfair_life_share"]) == (0.0, 0.5)


def test_no_job_runs_behind_one_that_does_not_fit_in_isolated_plus(tmp_path: Path) -> None:
    jobs = [line(1200, gpus=2), line(12000, gpus=4), line(1200, gpus=1)]
    strict = simulate(tmp_path, jobs, "isolated_plus", "4x1xV100")
    free = simulate(tmp_path, jobs, "isolated", "4x1xV100")
    assert strict["utilisation"] <= free["utilisation"]
    assert strict["finished"] == free["finished"] == 3


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_ends_every_job(tmp_path: Path, policy: str) -> None:
    if policy == "shockwave":
        pytest.importorskip("scipy")
    jobs = [
        line(4000 + 900 * i, 60.0 * i, (1, 2, 4)[i % 3], batch_sizes.MODES[i % 3], BATCHES[i % 5])
        for i in range(12)
    ]
    found = simulate(tmp_path, [*jobs, line(500, 1e6)], policy, "4x1xV100")
    assert (found["finished"], found["refused"]) == (13, 0)
    assert 0 < found["utilisation"] <= 1
    assert found["rho_max"] >= found["rho_mean"] > 0
    again = simulate(tmp_path, [*jobs, line(500, 1e6)], policy, "4x1xV100")
    assert {**again, "wall_s": 0} == {**found, "wall_s": 0}


def test_a_job_of_more_gpus_than_there_are_is_refused(tmp_path: Path) -> None:
    found = simulate(tmp_path, [line(1200), line(1200, gpus=4)], "max_min", "2x1xV100")
    assert (found["finished"], found["refused"]) == (1, 1)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("max_min:k=1", "bad_policy_parameter"),
        ("fifo:overhead_s=-1", "bad_policy_parameter"),
        ("shockwave:k=-1", "bad_policy_parameter"),
        ("shockwave:config=none", "bad_policy_parameter"),
        ("tiresias", "policy_not_in_preset"),
    ],
)
def test_what_cannot_be_had_is_an_error_with_a_code(tmp_path: Path, policy: str, code: str) -> None:
    with pytest.raises(WorkloadError) as error:
        simulate(tmp_path, [line(100)], policy)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("cells", "text"),
    [({"mode": "fast"}, "mode"), ({"batch": 77}, "77"), ({"gpus": 3}, "3 v100")],
)
def test_a_job_that_the_throughputs_do_not_know_is_an_error(
    tmp_path: Path, cells: dict[str, Any], text: str
) -> None:
    with pytest.raises(WorkloadError, match=text):
        simulate(tmp_path, [line(100, **cells)], "fifo", "4x1xV100")


def test_epochs_stay_when_the_batch_changes(tmp_path: Path) -> None:
    """20 epochs of 391 steps at 128, of which 11 are made: at 256 they are of 196 steps,
    and half of the steps (3,910) are 20 of them still."""
    one = job(tmp_path, 20 * 391)
    one.made = 10 * 391 + 1
    one.look()
    assert (one.epoch, one.wanted) == (11, 256)
    one.change_batch()
    assert (one.total, one.made, one.batch) == (3910, 11 * 196, 256)
    one.look()
    assert one.wanted == 256


@given(st.sampled_from(BATCHES), st.integers(1, 400_000), st.integers(0, 400_000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_change_adds_or_loses_an_epoch(
    tmp_path: Path, batch: int, steps: int, made: int
) -> None:
    one = job(tmp_path, steps, batch=batch)
    one.made = min(made, steps)
    for wanted in (256, batch):
        epochs = -(-one.total // batch_sizes.steps_per_epoch(one.model, one.batch))
        progress = one.epoch
        one.wanted = wanted
        one.change_batch()
        assert -(-one.total // batch_sizes.steps_per_epoch(one.model, one.batch)) == epochs
        assert one.epoch == progress


def test_batch_sizes_grow_by_the_noise_scale() -> None:
    path = batch_sizes.path("ResNet-18", 16, 1, "gns", 100)
    assert [path[at] for at in (0, 30, 31, 41, 51, 71, 98)] == [16, 16, 32, 64, 128, 256, 256]
    assert path[99] == 16  # the artifact's habit
    assert batch_sizes.path("Transformer", 64, 1, "gns", 3) == [64, 64, 64]
    assert batch_sizes.wanted("LM", 5, 5, 1, "gns", 29) == 5
    assert batch_sizes.wanted("LM", 5, 5, 1, "gns", 30) == 10  # it looks one epoch ahead
    assert batch_sizes.wanted("LM", 80, 80, 1, "gns", 99) == 80


def test_accordion_has_the_largest_batch_outside_of_critical_epochs() -> None:
    for epoch, batch in ((5, 32), (35, 32), (45, 128), (63, 32)):
        assert batch_sizes.wanted("ResNet-50", 32, 64, 1, "accordion", epoch) == batch
    path = batch_sizes.path("Recommendation", 512, 1, "accordion", 200)
    # Of 200 epochs the first 30 % keep their batch, and 60 to 69 and 80 to 89 are critical.
    assert [path[at] for at in (60, 69, 70, 80, 90)] == [512, 512, 8192, 512, 8192]
    assert batch_sizes.wanted("Recommendation", 512, 512, 1, "accordion", 65) == 8192


def test_fifo_gives_the_place_of_one_that_ended_away_before_it_counts_the_later_ones(
    tmp_path: Path,
) -> None:
    jobs = [job(tmp_path, 100) for _ in range(3)]
    for number, one in enumerate(jobs):
        one.number, one.gpus = number, 2
    policy = FifoShares(4)
    assert policy(jobs, 0.0) == {0: 1.0, 1: 1.0, 2: 0.0}
    assert policy(jobs[1:], 1.0) == {1: 1.0, 2: 1.0}


@pytest.mark.parametrize(
    ("policy", "page"),
    [
        ("max_min_fairness", (14_116, 58_687)),
        ("gandiva_fair", (16_506, 54_866)),
        ("fifo", (13_784, 53_808)),
        ("isolated", (14_084, 59_167)),
    ],
)
def test_a_published_trace_runs_whole_on_its_64_gpus(policy: str, page: tuple[int, int]) -> None:
    """No number is printed for the traces that are given: what is known is that all jobs end, and
    rho of five digits. Mean and makespan are those of the page."""
    (only,) = plan_runs(SimulateRequest(trace(PUBLISHED), preset="shockwave", policies=(policy,)))
    found, _ = execute(only)
    assert (found["jobs"], found["finished"]) == (220, 220)
    assert found["rho_max"] == round(found["rho_max"], 5)
    assert (round(found["avg_jct_s"]), round(found["makespan_s"])) == page
    assert 0.4 < found["utilisation"] < 1


@pytest.mark.long
def test_shockwave_is_fairer_than_the_policies_that_it_is_compared_with() -> None:
    """NSDI 2023, figure 9, in direction: fewer unfair jobs and a smaller worst rho, and a mean
    completion time that is no larger."""
    names = ("shockwave", "max_min", "ftf", "gandiva_fair", "min_makespan")
    lines = {}
    for name in names:
        request = SimulateRequest(trace(PUBLISHED), preset="shockwave", policies=(name,))
        (only,) = plan_runs(request)
        lines[name], _ = execute(only)
    own = lines.pop("shockwave")
    for name, other in lines.items():
        assert own["rho_max"] < other["rho_max"], name
        assert own["unfair_share"] < other["unfair_share"], name
        assert own["avg_jct_s"] < other["avg_jct_s"], name
