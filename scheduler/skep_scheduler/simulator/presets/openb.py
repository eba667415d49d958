"""Preset `openb`: the experiment of FGD (Weng et al., USENIX ATC 2023) on the nodes and pod lists
of Alibaba's openb cluster.

Pods arrive and never leave; each finds a place at once, or is refused for good. The list is
lengthened until the GPUs that were requested are 1.3 times those of the cluster. Seed 0 draws
nothing: nodes and pods come in the order of their files, and the list is repeated from its first
row. Any other seed shuffles nodes and pods, and lengthens the list by pods drawn from it. Equal
scores go to the first node in the order of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from skep_scheduler.placement import fractions
from skep_scheduler.placement.fgd import Fgd, Typical, typical_of
from skep_scheduler.placement.fractions import NodeState, PodRequest, fits
from skep_scheduler.simulator.clusters import Hardware
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import (
    CPU_MILLIS_PER_GPU,
    MEMORY_MB_PER_GPU,
    TraceJob,
    WorkloadError,
)

LOAD = 1.3  # GPUs requested, of those of the cluster
NODES = "openb_node_list_gpu_node.csv"
PERCENTS = (90, 95, 100, 110, 120, 130)
RULES = {
    "bestfit": fractions.best_fit,
    "dotprod": fractions.dot_product,
    "gpupacking": fractions.gpu_packing,
    "gpuclustering": fractions.gpu_clustering,
}
POLICIES = ("fgd", *RULES, "random")


def run(
    jobs: Sequence[TraceJob],
    hardware: Hardware,
    policy: str,
    seed: int,
    report: Callable[[int], None] | None = None,
) -> Outcome:
    """Place the pods of a list. Raises `WorkloadError`."""
    random = Random(seed)  # noqa: S311 (no secret is made of it)
    nodes = _nodes(hardware)
    requests = [_request(job) for job in jobs]
    typical = typical_of(requests)
    capacity = sum(sum(node.gpus) for node in nodes)
    order = _arrivals(requests, capacity, random if seed else None)
    if seed:
        random.shuffle(nodes)
    placer = _Placer(nodes, _rule(policy, typical), random)
    asked = used = 0
    levels: dict[int, list[float]] = {}
    results = []
    for arrived, index in enumerate(order):
        request, job = requests[index], jobs[index]
        asked += request.gpu_milli
        placed = placer.place(request)
        used += request.gpu_milli if placed else 0
        levels.setdefault(round(100 * asked / capacity), []).append(used / capacity)
        if report is not None and arrived % 1000 == 999:
            report(min(arrived + 1, len(jobs)))
        turn = arrived // len(jobs)
        results.append(
            JobResult(
                f"{job.id}#{arrived + 1}" if turn or seed else job.id,
                request.number,
                0.0,
                0.0 if placed else None,
                None,
                0.0,
                0.0,
                refused="" if placed else "no node fits",
            )
        )
    measure = Fgd(typical).fragmentation
    fragmented = sum(measure(node.cpu_millis, node.gpus, node.model) for node in nodes)
    figures: dict[str, float | int] = {
        "placed": sum(not job.refused for job in results),
        "used_gpu_milli": used,
        "total_gpu_milli": capacity,
        "alloc_percent": 100 * used / capacity,
        "frag_percent": 100 * fragmented / capacity,
        "typical_pods": len(typical),
    }
    for percent in PERCENTS:
        seen = levels.get(percent)
        if seen:
            figures[f"alloc_percent_at_{percent}"] = 100 * sum(seen) / len(seen)
    outcome = Outcome(results, hardware.gpus, utilisation=used / capacity, more=figures)
    outcome.check(len(order))
    return outcome


def _nodes(hardware: Hardware) -> list[NodeState]:
    nodes = []
    for group in hardware.groups:
        cpu_millis = group.cpu_millis or CPU_MILLIS_PER_GPU * group.gpus
        memory_mb = group.memory_mb or MEMORY_MB_PER_GPU * group.gpus
        gpus = (fractions.WHOLE,) * group.gpus
        nodes += [NodeState(cpu_millis, memory_mb, gpus, group.model)] * group.nodes
    return nodes


def _request(job: TraceJob) -> PodRequest:
    if job.gpus < 0 or (job.gpus and not 0 < job.gpu_milli <= fractions.WHOLE):
        raise WorkloadError(f"pod {job.id}: gpu_milli is from 1 to 1000 where it asks for GPUs")
    if job.gpus > 1 and job.gpu_milli != fractions.WHOLE:
        raise WorkloadError(f"pod {job.id}: more than one GPU is asked for whole (gpu_milli 1000)")
    models = frozenset(filter(None, job.model.split("|")))
    milli = job.gpu_milli if job.gpus else 0
    return PodRequest(job.cpu_millis, job.memory_mb, milli, job.gpus, models)


def _arrivals(requests: Sequence[PodRequest], capacity: int, random: Random | None) -> list[int]:
    """Return which pods arrive, in order."""
    if not any(request.number for request in requests):
        raise WorkloadError("no pod of the list asks for a GPU")
    order = list(range(len(requests)))
    if random is not None:
        random.shuffle(order)
    asked = sum(request.gpu_milli for request in requests)
    turn = 0
    while True:
        index = turn % len(requests) if random is None else random.randrange(len(requests))
        # As in the artifact, what the next one asks of one GPU decides.
        if asked + requests[index].milli > LOAD * capacity:
            break
        asked += requests[index].gpu_milli
        order.append(index)
        turn += 1
    return order


def _rule(policy: str, typical: tuple[Typical, ...]) -> fractions.Score | None:
    """Return the rule of a policy; None: a place is drawn."""
    return Fgd(typical).score if policy == "fgd" else RULES.get(policy)


@dataclass(slots=True)
class _Seen:
    """What is known of the nodes for one request: scores, -1 where it does not fit, as of a
    number of changes."""

    scores: list[int]
    chosen: list[tuple[int, ...]]
    changes: int


class _Placer:
    """Places one request after the other. Scores are kept for each request, and those of the nodes
    that changed since are computed anew."""

    def __init__(
        self, nodes: list[NodeState], rule: fractions.Score | None, random: Random
    ) -> None:
        self._nodes, self._rule, self._random = nodes, rule, random
        self._seen: dict[PodRequest, _Seen] = {}
        self._changed: list[int] = []

    def place(self, request: PodRequest) -> bool:
        seen = self._seen.get(request)
        if seen is None:
            seen = _Seen([-1] * len(self._nodes), [()] * len(self._nodes), 0)
            self._seen[request] = seen
            self._look(request, seen, range(len(self._nodes)))
        else:
            self._look(request, seen, sorted(set(self._changed[seen.changes :])))
        seen.changes = len(self._changed)
        best = max(seen.scores)
        if best < 0:
            return False
        if self._rule is None:
            choice = [node for node, score in enumerate(seen.scores) if score >= 0]
            node = self._random.choice(choice)
            state = self._nodes[node]
            enough = [i for i, free in enumerate(state.gpus) if free >= request.milli]
            chosen = tuple(self._random.sample(enough, request.number)) if request.number else ()
        else:
            node = seen.scores.index(best)
            chosen = seen.chosen[node]
        self._nodes[node] = self._nodes[node].with_request(request, chosen)
        self._changed.append(node)
        return True

    def _look(self, request: PodRequest, seen: _Seen, nodes: Sequence[int]) -> None:
        known: dict[NodeState, tuple[int, tuple[int, ...]]] = {}
        for node in nodes:
            state = self._nodes[node]
            if not fits(state, request):
                seen.scores[node] = -1
            elif self._rule is None:
                seen.scores[node] = 0
            else:
                answer = known.get(state)
                if answer is None:
                    answer = known[state] = self._rule(state, request)
                seen.scores[node], seen.chosen[node] = answer
