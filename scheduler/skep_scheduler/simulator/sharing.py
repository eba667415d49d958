"""The event kernel of packing policies: several jobs on one GPU, each as fast as the others let it.

The events are those of `event_loop`, and at each the policy decides once (`policies.packing`). A
running job keeps its rate between two events. Its speed is the product of

- the least over its GPUs of what the others leave it there: what two models make beside each other
  where the profile has the pair, else `1 / sum of use` where that is above 1 (each with its share
  of the time);
- its share of the time, where it takes turns;
- the speed-up of its number of GPUs over the number that it asks for;
- its rate with its CPUs and memory, by that with its proportional share.

A job that starts again pays `restart_s` with the GPUs held, and `migration_s` besides on
other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from skep_scheduler.policies.packing import Gpus, Machines, PackedFacts, Packing, PackingPolicy
from skep_scheduler.policies.recurrence import Recurrence
from skep_scheduler.simulator.event_loop import NEVER, US, result_of, run_events
from skep_scheduler.simulator.invariants import require
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import TraceJob

Beside = Callable[[TraceJob, TraceJob], float | None]


@dataclass(frozen=True, slots=True)
class Speeds:
    """How fast jobs are. `beside`: the speed of one beside another, by the one that it has alone;
    None: not known. `speedup`: on so many GPUs, by the speed on one."""

    beside: Beside = lambda job, other: None
    speedup: Callable[[int], float] = float
    restart_s: float = 0.0
    migration_s: float = 0.0


@dataclass(slots=True)
class SharedJobRun:
    """A job in time. `facts` is what the policy sees, up to date at each decision."""

    trace: TraceJob
    facts: PackedFacts
    duration_s: float
    submit_us: int = 0
    touched_us: int = 0
    start_us: int = 0  # since when it makes progress at `rate`
    start_left: float = 0.0
    rate: float = 0.0
    end_us: int = NEVER
    paid_until_us: int = 0
    first_us: int | None = None
    ended_us: int | None = None
    held_us: int = 0
    gpu_us: float = 0.0  # a GPU that several jobs hold counts once for all
    weight: float = 0.0
    ran_on: set[int] = field(default_factory=set)
    preemptions: int = 0
    migrations: int = 0
    groups: list[tuple[object, ...]] = field(default_factory=list)

    def touch(self, now: int) -> None:
        passed = now - self.touched_us
        self.touched_us = now
        if self.facts.held and passed > 0:
            self.held_us += passed
            self.gpu_us += passed * self.weight
            self.facts.attained_gpu_s += passed / US * len(self.facts.held)
            made = max(now - self.start_us, 0) / US * self.rate
            self.facts.left_s = max(self.start_left - made, 0.0)

    def move(self, gpus: Gpus, nodes: set[int], now: int, speeds: Speeds) -> None:
        """Hold other GPUs from now on, on these nodes, or none."""
        if gpus == self.facts.held:
            return
        if not gpus:
            self.preemptions += 1
        elif self.first_us is None:
            self.first_us = now
        else:
            cost = speeds.restart_s
            if nodes != self.ran_on:
                self.migrations += 1
                cost += speeds.migration_s
            self.paid_until_us = now + int(cost * US)
        self.ran_on = nodes or self.ran_on
        self.facts.held = gpus

    def go_on(self, rate: float, now: int) -> None:
        """Make progress at this rate from now on, or when the restart is paid."""
        self.start_us = max(now, self.paid_until_us)
        self.start_left, self.rate = self.facts.left_s, rate
        self.end_us = NEVER
        if rate > 0:
            self.end_us = self.start_us + ceil(self.facts.left_s / rate * US - 1e-6)

    @property
    def has_gpus(self) -> bool:
        return bool(self.facts.held)

    def result(self) -> JobResult:
        return result_of(self, self.duration_s, migrations=self.migrations)


class SharingRun:
    """Runs jobs under a packing policy."""

    def __init__(
        self,
        jobs: Sequence[SharedJobRun],
        policy: PackingPolicy,
        machines: Machines,
        speeds: Speeds,
    ) -> None:
        self.jobs, self.policy, self.machines, self.speeds = jobs, policy, machines, speeds
        self._node = {gpu: n for n, node in enumerate(machines.nodes) for gpu in node}
        self._history = Recurrence()
        self._packing = Packing()
        self._packed_us = 0.0

    def run(self, report: Any = None) -> Outcome:
        """Run all to their ends. Raises `RunInvariantError` where GPUs, CPUs or memory are given
        that do not exist, or a job is lost."""
        possible = [job for job in self.jobs if job.facts.gpus <= self.machines.gpus]
        series = run_events(self, possible, report)
        outcome = Outcome([job.result() for job in self.jobs], self.machines.gpus, series=series)
        held = sum(job.gpu_us for job in self.jobs)
        shared = sum(job.held_us * job.facts.gpus for job in self.jobs)
        outcome.more = {"jobs_per_gpu": shared / held if held else 0.0}
        outcome.check(len(self.jobs))
        return outcome

    def arrive(self, job: SharedJobRun) -> None:
        job.facts.expected_s = self._history.predict(job.groups)

    def decide(self, active: list[SharedJobRun], now: int) -> tuple[list[SharedJobRun], float]:
        packing = self.policy.decide([job.facts for job in active], self.machines, now / US)
        self._carry_out(active, packing, now)
        return active, packing.wake_at

    def used(self, active: Sequence[SharedJobRun]) -> int:
        return len({gpu for job in active for gpu in job.facts.held})

    def end(self, job: SharedJobRun, now: int) -> None:
        job.ended_us, job.facts.held = now, ()
        self._history.learn(job.groups, job.duration_s)

    def _carry_out(self, active: Sequence[SharedJobRun], packing: Packing, now: int) -> None:
        facts = {job.facts.id: job for job in active}
        before = self._packing
        if packing.places == before.places and (packing.shares, packing.amounts) == (
            before.shares,
            before.amounts,
        ):
            return
        self._packing = packing
        on: dict[int, list[SharedJobRun]] = {}
        for job_id, gpus in packing.places.items():
            require(len(set(gpus)) == len(gpus), f"{job_id} has a GPU twice: {gpus}.", now / US)
            there = all(gpu in self._node for gpu in gpus)
            require(there, f"{job_id} has a GPU that is not there: {gpus}.", now / US)
            for gpu in gpus:
                on.setdefault(gpu, []).append(facts[job_id])
        self._check_amounts(packing, now)
        for job in active:
            gpus = packing.places.get(job.facts.id, ())
            job.move(gpus, {self._node[gpu] for gpu in gpus}, now, self.speeds)
            job.facts.amounts = packing.amounts.get(job.facts.id, self._share(len(gpus)))
            job.facts.speed = self._speed(job, gpus, on, packing) if gpus else 0.0
            job.weight = sum(1 / len(on[gpu]) for gpu in gpus)
            job.go_on(job.facts.speed, now)

    def _share(self, gpus: int) -> tuple[float, float]:
        return self.machines.cpus * gpus, self.machines.memory_gb * gpus

    def _speed(
        self,
        job: SharedJobRun,
        gpus: Gpus,
        on: dict[int, list[SharedJobRun]],
        packing: Packing,
    ) -> float:
        own = packing.shares.get(job.facts.id, 1.0)
        speed = own * min(self._left_by_others(job, on[gpu], packing) for gpu in gpus)
        asked = job.facts.gpus
        if len(gpus) != asked:
            speed *= self.speeds.speedup(len(gpus)) / self.speeds.speedup(asked)
        if job.facts.id in packing.amounts:
            cpus, memory_gb = packing.amounts[job.facts.id]
            demand = job.facts.demand
            alone = demand.rate(self.machines.cpus, self.machines.memory_gb)
            speed *= demand.rate(cpus / asked, memory_gb / asked) / alone
        return speed

    def _left_by_others(
        self, job: SharedJobRun, members: Sequence[SharedJobRun], packing: Packing
    ) -> float:
        """Return the speed of a job on one GPU while it may run there."""
        shares = [packing.shares.get(member.facts.id, 1.0) for member in members]
        if len(members) == 2 and min(shares) == 1:
            other = members[0] if members[1] is job else members[1]
            known = self.speeds.beside(job.trace, other.trace)
            if known is not None:
                return known
        use = sum(member.facts.use * share for member, share in zip(members, shares, strict=True))
        return min(1.0, 1 / use) if len(members) > 1 and use > 0 else 1.0

    def _check_amounts(self, packing: Packing, now: int) -> None:
        used = [[0.0, 0.0] for _ in self.machines.nodes]
        for job_id, amounts in packing.amounts.items():
            gpus = packing.places[job_id]
            for gpu in gpus:
                for which in (0, 1):
                    used[self._node[gpu]][which] += amounts[which] / len(gpus)
        for node, (cpus, memory_gb) in zip(self.machines.nodes, used, strict=True):
            most = self._share(len(node))
            given = f"{cpus} of {most[0]} CPUs and {memory_gb} of {most[1]} GB are given."
            fits = cpus <= most[0] + 1e-3 and memory_gb <= most[1] + 1e-3
            require(fits, f"node {node}: {given}", now / US)
