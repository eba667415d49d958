"""Figures of a finished simulation, each with one definition for simulated and live clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from skep_scheduler.simulator.cluster import History, SimulatedCluster, gpus_of


@dataclass(frozen=True, slots=True)
class Summary:
    """
    jobs, finished: number of jobs, and of those that ended
    avg_jct_s, p50_jct_s, p99_jct_s: job completion time, from submission to end
    avg_wait_s: the part of it without GPUs
    makespan_s: from the first submission to the last end
    utilisation: GPU-seconds held, of all GPU-seconds within the makespan
    preemptions: how often a running job had to leave
    """

    jobs: int
    finished: int
    avg_jct_s: float
    p50_jct_s: float
    p99_jct_s: float
    avg_wait_s: float
    makespan_s: float
    utilisation: float
    preemptions: int


def summarise(cluster: SimulatedCluster) -> Summary:
    """Return the figures of all gangs that were submitted to `cluster`.

    Raises `AssertionError` if a job is lost: neither ended nor waiting nor running.
    """
    histories = list(cluster.history.values())
    ended = [history for history in histories if history.ended_at is not None]
    known = {*cluster.state.waiting, *cluster.state.running, *cluster.state.nominated}
    lost = len(histories) - len(ended) - len(known)
    assert lost == 0, f"{lost} of {len(histories)} jobs are lost"
    times = sorted(_jct(history) for history in ended)
    gpus = sum(len(node.devices) for node in cluster.state.nodes.values())
    held = sum(history.served_s * gpus_of(history.gang) for history in ended)
    makespan = _makespan(ended)
    return Summary(
        jobs=len(histories),
        finished=len(ended),
        avg_jct_s=_mean(times),
        p50_jct_s=percentile(times, 50),
        p99_jct_s=percentile(times, 99),
        avg_wait_s=_mean([_jct(history) - history.served_s for history in ended]),
        makespan_s=makespan,
        utilisation=held / (gpus * makespan) if gpus and makespan else 0.0,
        preemptions=sum(history.preemptions for history in histories),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of values in ascending order, 0 for no values."""
    return ordered[max(ceil(len(ordered) * percent / 100), 1) - 1] if ordered else 0.0


def _jct(history: History) -> float:
    assert history.ended_at is not None
    return history.ended_at - history.gang.submitted_at


def _makespan(ended: Sequence[History]) -> float:
    if not ended:
        return 0.0
    ends = (history.ended_at or 0.0 for history in ended)
    return max(ends) - min(history.gang.submitted_at for history in ended)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
