"""The jobs of Gavel's simulator, made of a seed and a throughput file as the artifact makes them.

Poisson arrivals with a mean gap of `lambda_s` (0: all are there at the start), durations of 10^1.5
to 10^4 minutes on a V100, 26 job types; with `multi_gpu` 70 % have one GPU, 10 % two, 15 % four
and 5 % eight.
"""

from __future__ import annotations

from math import log
from random import Random

from skep_scheduler.policies.gavel.problem import Job
from skep_scheduler.simulator.speed import JobType, TypedProfiles
from skep_scheduler.simulator.workload import WorkloadError

TYPES = ("v100", "p100", "k80")
BATCHES = (
    ("ResNet-18", (16, 32, 64, 128, 256)),
    ("ResNet-50", (16, 32, 64, 128)),
    ("Transformer", (16, 32, 64, 128, 256)),
    ("LM", (5, 10, 20, 40, 80)),
    ("Recommendation", (512, 1024, 2048, 4096, 8192)),
)
TEMPLATES = (
    *(f"{model} (batch size {batch})" for model, batches in BATCHES for batch in batches),
    "A3C",
    "CycleGAN",
)
ALONE = ("Recommendation", "A3C", "CycleGAN")  # they run on one GPU only


class RoundJob:
    """One job; `rates` are its steps per second by GPU type, in the order of `TYPES`."""

    __slots__ = (
        "arrival",
        "duration",
        "ended",
        "gpus",
        "held",
        "kind",
        "made",
        "migrations",
        "number",
        "preemptions",
        "rates",
        "slo",
        "started",
        "steps",
    )

    def __init__(
        self, number: int, arrival: float, duration: float, kind: JobType, rates: tuple[float, ...]
    ) -> None:
        self.number, self.arrival, self.duration, self.kind = number, arrival, duration, kind
        self.gpus, self.rates = kind[1], rates
        self.steps = duration * rates[0]
        self.made = self.held = 0.0
        self.slo = 0.0
        self.preemptions = self.migrations = 0
        self.started: float | None = None
        self.ended: float | None = None

    def view(self, now: float) -> Job:
        """Return what a rule sees of it."""
        due = self.arrival + self.slo * self.duration - now if self.slo else None
        left, elapsed = self.steps - self.made, now - self.arrival
        return Job(self.number, self.kind, self.gpus, self.rates, left, elapsed, 1.0, due)


class Jobs:
    """The endless sequence of jobs of a seed. `slos`: each has a deadline, 1.2, 2 or 10 times its
    duration after its arrival."""

    def __init__(
        self,
        seed: int,
        lambda_s: float,
        profiles: TypedProfiles,
        *,
        multi_gpu: bool = False,
        slos: bool = False,
    ) -> None:
        self._kinds, self._gaps = Random(seed + 2), Random(seed + 3)  # noqa: S311 (no secret)
        self._slos = Random(seed + 6) if slos else None  # noqa: S311
        self._lambda_s, self._profiles, self._multi_gpu = lambda_s, profiles, multi_gpu
        self._arrival, self._count = 0.0, 0
        for template in TEMPLATES:
            for gpus in (1, 2, 4, 8) if multi_gpu and not template.startswith(ALONE) else (1,):
                for gpu_type in TYPES:
                    if (template, gpus) not in profiles.alone.get(gpu_type, {}):
                        raise WorkloadError(
                            f"the throughputs have no {template} on {gpus} {gpu_type}",
                            "bad_profile",
                        )

    def next(self) -> RoundJob:
        random = self._kinds
        gpus = _gpus(random.uniform(0, 1))
        if not self._multi_gpu:
            gpus = 1
        long = random.random() >= 0.8
        power = random.uniform(3, 4) if long else random.uniform(1.5, 3)
        template = random.choice(TEMPLATES)
        while gpus > 1 and template.startswith(ALONE):
            template = random.choice(TEMPLATES)
        if self._count and self._lambda_s:
            self._arrival += -log(1.0 - self._gaps.random()) * self._lambda_s
        kind = template, gpus
        rates = tuple(self._profiles.alone[t][kind] for t in TYPES)
        job = RoundJob(self._count, self._arrival, 60 * 10**power, kind, rates)
        if self._slos is not None:
            drawn = self._slos.uniform(0, 1)
            job.slo = 1.2 if drawn < 0.33 else 2.0 if drawn < 0.67 else 10.0
        self._count += 1
        return job


def _gpus(drawn: float) -> int:
    return 8 if drawn >= 0.95 else 4 if drawn >= 0.8 else 2 if drawn >= 0.7 else 1
