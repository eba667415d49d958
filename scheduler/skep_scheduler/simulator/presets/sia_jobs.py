"""Jobs of the presets `sia-64` and `sia-t4`: what they hold, how they progress, what they learn."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from skep_scheduler.policies.goodput import Batches, Speed, best, fit, split
from skep_scheduler.simulator.applications import Application, Counts
from skep_scheduler.simulator.workload import TraceJob

Noise = tuple[float, float]


@dataclass(frozen=True, slots=True)
class JobGpus:
    """GPUs of one type: the nodes by their index within the type, one for each GPU."""

    gpu_type: str
    nodes: tuple[int, ...]

    @property
    def counts(self) -> Counts:
        """Return the GPUs on each node, in the order of the nodes."""
        return tuple(self.nodes.count(node) for node in dict.fromkeys(self.nodes))


@dataclass(slots=True)
class Learned:
    """What a job learned of one GPU type: (T_acc, T_step) by (nodes, GPUs, m), and the fit."""

    seen: dict[tuple[int, int, int], tuple[float, float]] = field(default_factory=dict)
    speed: Speed | None = None


class SiaJob:
    """One job. `fixed`: it keeps the batch of its request. `typed`: it learns of each GPU type by
    itself; else of all of them as one, by the name ""."""

    def __init__(
        self, trace: TraceJob, application: Application, *, fixed: bool, typed: bool = True
    ) -> None:
        self.trace, self.application = trace, application
        self.fixed, self.typed = fixed, typed
        self.held: JobGpus | None = None
        self.restart_left = 0
        self.restarts = 0
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.epoch, self.progress = 0, 0.0
        self.held_s, self.gpu_s = 0.0, 0.0
        self.local, self.steps = 0, 0
        self.learned: dict[str, Learned] = {}
        self.most_gpus = 0  # the largest size that it learned
        self.noise: Noise | None = None  # (sqr, var) of its gradient, as it saw them last

    def allocate(self, held: JobGpus | None, now: float) -> None:
        """Give it GPUs from now on. Another type or other counts on its nodes is a restart."""
        before, self.held = self.held, held
        if held is None:
            return
        if before is not None and (before.gpu_type, before.counts) == (held.gpu_type, held.counts):
            return
        self.restart_left = self.application.facts.restart_s
        if self.started_at is None:
            self.started_at = now
        else:
            self.restarts += 1
        self.choose_batch()

    def choose_batch(self) -> None:
        """Choose m and s for what it holds."""
        assert self.held is not None
        app, counts = self.application, self.held.counts
        nodes, gpus = len(counts), sum(counts)
        times = app.times[self.held.gpu_type]
        learned = self.learned.get(self.held.gpu_type if self.typed else "")
        if self.fixed:
            self.local, self.steps = self._split(self.held.gpu_type, counts, self.trace.batch)
        elif learned is None:
            whole = max(app.initial, times.least * gpus)
            self.local, self.steps = self._split(self.held.gpu_type, counts, whole)
        else:
            assert learned.speed is not None
            assert self.noise is not None
            batches = Batches(app.initial, app.largest, times.least, times.largest_local(counts))
            _, local, steps = best(
                learned.speed, self.noise, batches, np.array([nodes]), np.array([gpus])
            )
            self.local = min(int(local[0]), app.largest // (gpus * (int(steps[0]) + 1)))
            self.steps = int(steps[0])
        self.local = min(self.local, times.largest_local(counts))

    def steps_per_s(self, gpu_type: str, counts: Counts) -> float:
        """Return the true steps per second with the batch of the request."""
        local, steps = self._split(gpu_type, counts, self.trace.batch)
        step, sync = self.application.times[gpu_type].times(counts, local)
        return 1 / (step + steps * (step - sync)) / self.application.facts.slow_down

    def _split(self, gpu_type: str, counts: Counts, whole: int) -> tuple[int, int]:
        """Return (m, s) of a global batch."""
        app, gpus = self.application, sum(counts)
        times = app.times[gpu_type]
        batches = Batches(app.initial, whole, times.least, times.largest_local(counts))
        local, steps = split(batches, np.array([gpus]), np.array([float(whole)]))
        return min(int(local[0]), app.largest // (gpus * (int(steps[0]) + 1))), int(steps[0])

    def run(self, seconds: int, now: float) -> None:
        """Let `seconds` pass from `now` on."""
        if self.held is None:
            return
        app, counts = self.application, self.held.counts
        gpus = sum(counts)
        times = app.times[self.held.gpu_type]
        left = seconds - min(self.restart_left, seconds)
        self.restart_left -= seconds - left
        while left > 0 and self.ended_at is None:
            batch = gpus * self.local * (self.steps + 1)
            step, sync = times.times(counts, self.local)
            noise = app.noise(batch, self.epoch)
            self._learn(len(counts), gpus, step, sync, noise)
            rate = app.rate(noise, batch, step + self.steps * (step - sync))
            end = app.ends[self.epoch]
            if self.progress + rate * left < end:
                self.progress += rate * left
                left = 0
            else:
                left -= round((end - self.progress) / rate)
                self.progress = end
                self.epoch += 1
                if self.epoch == app.epochs:
                    self.ended_at = now + seconds - left
            self.choose_batch()
        self.held_s += seconds - (left if self.ended_at is not None else 0)
        self.gpu_s += gpus * (seconds - (left if self.ended_at is not None else 0))

    def _learn(self, nodes: int, gpus: int, step: float, sync: float, noise: Noise) -> None:
        assert self.held is not None
        learned = self.learned.setdefault(self.held.gpu_type if self.typed else "", Learned())
        self.noise = noise
        key = nodes, gpus, self.local
        if key in learned.seen:
            return
        learned.seen[key] = step - sync, step
        self.most_gpus = max(self.most_gpus, gpus)
        if not self.fixed:
            fitted, known = self.application.fitted, frozenset(learned.seen.items())
            if known not in fitted:
                fitted[known] = fit([(*k, *v) for k, v in sorted(learned.seen.items())])
            learned.speed = fitted[known]
