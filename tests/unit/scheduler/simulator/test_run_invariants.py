"""A run in which an invariant stops holding ends there, and says when and which."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import gang, node, owns
from typer.testing import CliRunner

from skep_client import exits
from skep_client.cli import app
from skep_scheduler.policies.fifo import Fifo
from skep_scheduler.simulator.cluster import SimulatedCluster
from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs
from skep_scheduler.simulator.invariants import RunInvariantError
from skep_scheduler.simulator.kernel import Kernel
from skep_scheduler.simulator.pools import NodePool, Place
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import TraceJob, WorkloadError


def running() -> SimulatedCluster:
    """Return two nodes of 8 GPUs on which two jobs run, from 0 to 600 s."""
    cluster = SimulatedCluster([node("n1"), node("n2")], owns(a=8, b=8))
    cluster.submit(gang("one", vc="a", gpus=4, duration_s=600))
    cluster.submit(gang("two", vc="b", gpus=8, duration_s=600))
    cluster.submit_later(gang("late", vc="a", gpus=2, at=60, duration_s=60))
    cluster.tick()
    cluster.step()  # all that was found when the run began is checked
    return cluster


def take_twice(cluster: SimulatedCluster) -> None:
    """Give a job the GPUs of another one."""
    theirs = cluster.state.running["two"].tasks
    mine = cluster.state.running["one"]
    task = replace(mine.tasks[0], node=theirs[0].node, gpu_uuids=theirs[0].gpu_uuids[:4])
    cluster.state.set_running(replace(mine, tasks=(task,)))


def count_wrongly(cluster: SimulatedCluster) -> None:
    """Let a cell say that fewer of its GPUs are in use, and change the job there."""
    leaf = next(leaf for leaf in cluster.state.cells.leaves.values() if leaf.user is not None)
    assert leaf.parent is not None
    leaf.parent.used_total -= 1
    owner = cluster.state.running["one"]
    other = cluster.state.running["two"]
    for allocation in (owner, other):
        cluster.state.set_running(replace(allocation, leaving=True))


def claim_too_much(cluster: SimulatedCluster) -> None:
    """Let a virtual cluster own more than is there."""
    pool = next(iter(cluster.state.cells.chains.values()))
    pool.claims[pool.shape.top] += 1


def end_and_stay(cluster: SimulatedCluster) -> None:
    """Say that a job ended, and leave it where it is."""
    cluster.history["one"].ended_at = cluster.now
    cluster.state.set_running(replace(cluster.state.running["one"], leaving=True))


def move_elsewhere(cluster: SimulatedCluster) -> None:
    """Say that a job has its GPUs on another node than the one that has them."""
    mine = cluster.state.running["one"]
    other = "n1" if mine.tasks[0].node == "n2" else "n2"
    cluster.state.set_running(replace(mine, tasks=(replace(mine.tasks[0], node=other),)))


def test_a_job_on_a_node_that_is_taken_away_goes_on_to_its_end() -> None:
    cluster = running()
    cluster.tick()
    gone = cluster.state.running["two"].tasks[0].node
    left = tuple(one for one in cluster.state.inventory.nodes if one.name != gone)
    cluster.state.set_inventory(replace(cluster.state.inventory, nodes=left))
    cluster.run_to_end()
    assert cluster.history["two"].ended_at == 600


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (move_elsewhere, "which never had it."),
        (take_twice, "have the same GPU"),
        (count_wrongly, "used in all, its children"),
        (claim_too_much, "not all claims"),
        (end_and_stay, "one ended, and is still there."),
    ],
)
def test_a_broken_state_is_found_at_the_next_decision(
    harm: Callable[[SimulatedCluster], None], sentence: str
) -> None:
    cluster = running()
    harm(cluster)
    with pytest.raises(RunInvariantError) as found:
        cluster.step()
    assert any(sentence in one for one in found.value.violations), found.value.violations
    assert found.value.moment_s == cluster.now


def test_what_no_change_points_to_is_found_by_the_check_of_the_whole_state() -> None:
    cluster = running()
    cluster.state.allocations.resources.nodes["n2"].users.clear()
    cluster.submit(gang("wide", vc="a", gpus=8, duration_s=1))
    with pytest.raises(RunInvariantError, match="n2 counts"):
        cluster.run_to_end()


class GenerousPool(NodePool):
    """Gives the first node to any job, however full it is."""

    def take(self, gpus: int, image: str = "") -> Place | None:
        self.free -= gpus
        return ((0, gpus),)


class ForgetfulPool(NodePool):
    """Does not get back what jobs give."""

    def give_back(self, place: Place) -> None:
        """Lose it."""


@pytest.mark.parametrize(
    ("pool", "sentence"),
    [
        (GenerousPool, "second gets 6 GPUs of node 0, where 12 would be in use of the 8"),
        (ForgetfulPool, "The pool has 10 free GPUs, its jobs leave 16."),
    ],
)
def test_the_event_kernel_counts_gpus_beside_its_pool(pool: type[NodePool], sentence: str) -> None:
    jobs = [TraceJob("first", 0, 50, 6), TraceJob("second", 60, 50, 6)]
    if pool is GenerousPool:
        jobs[1] = replace(jobs[1], submit_s=10)
    with pytest.raises(RunInvariantError, match=sentence) as found:
        Kernel(jobs, {"": (pool([8, 8]), Fifo())}).run()
    assert found.value.moment_s == (10 if pool is GenerousPool else 50)


def test_a_lost_job_is_found_in_every_outcome() -> None:
    job = JobResult("a", 8, 0.0, 0.0, 100.0, 150.0, 100.0)
    with pytest.raises(RunInvariantError) as found:
        Outcome([job], gpus=8).check(submitted=2)
    assert found.value.violations == [
        "1 of 2 jobs are there.",
        "1200.0 GPU-seconds were used, and there were 800.0.",
    ]


def test_the_error_names_run_moment_and_invariant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("id,submit_s,duration_s,gpus\na,0,50,6\nb,10,50,6\n")
    monkeypatch.setattr(NodePool, "take", GenerousPool.take)
    request = SimulateRequest(trace, "1x8xV100", ("fifo",))
    (run,) = plan_runs(request)
    with pytest.raises(WorkloadError) as found:
        execute(run)
    message = "fifo on jobs.csv, seed 0: an invariant does not hold at 10 s: b gets 6 GPUs of node"
    assert found.value.message.startswith(message)
    assert (found.value.code, found.value.details["moment_s"]) == ("invariant_broken", 10)

    words: Sequence[Any] = ("simulate", "--trace", str(trace), "--cluster", "1x8xV100")
    answer = CliRunner().invoke(app, [*words, "--policy", "fifo", "--json"])
    assert answer.exit_code == exits.FAILED
    assert json.loads(answer.stderr.splitlines()[-1])["code"] == "invariant_broken"
