"""What the owner of a finished job could ask for instead: a pure function of what was used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MIN_SAMPLES = 6  # of a GPU or a container: less tells nothing about a job
IDLE_GPU_PERCENT = 5.0  # one of several that nobody uses
IDLE_PERCENT = 15.0  # of all GPUs together
WAITING_PERCENT = 50.0  # GPUs that could have done twice as much
BUSY_CPU_PERCENT = 90.0  # of the cores asked for
SPARE_MEMORY = 4  # times of what was used
SPARE_MEMORY_MB = 8192  # less is not worth a word
NEAR_LIMIT_PERCENT = 90.0

Advice = dict[str, Any]  # {code, message, details}


@dataclass(frozen=True, slots=True)
class RoleUse:
    """What each task of a role asked for, and what its tasks used. None: nobody measured it."""

    name: str
    tasks: int
    gpus: int  # per task, as the next two
    cpus: float  # cores
    memory_mb: int
    gpu_utilization: float | None = None  # percent, mean
    gpu_samples: int = 0
    gpu_memory_peak_mb: int | None = None  # of one GPU
    gpus_seen: int = 0  # in the newest job attempt, as the next
    gpus_idle: int = 0
    cpu_percent: float | None = None  # mean of a task; 100 = one core
    cpu_samples: int = 0
    memory_peak_mb: int | None = None  # of one task

    @property
    def all_gpus(self) -> int:
        return self.tasks * self.gpus


def utilization(roles: Sequence[RoleUse]) -> float | None:
    """Percent, mean over all GPUs and all the time they were held."""
    return _mean([(r.gpu_utilization, r.gpu_samples) for r in roles])


def cpu_percent(roles: Sequence[RoleUse]) -> float | None:
    """Mean of a task; 100 = one core."""
    return _mean([(r.cpu_percent, r.cpu_samples) for r in roles])


def advise(roles: Sequence[RoleUse]) -> list[Advice]:
    """Sentences with numbers, the costliest waste first; none for a job that used what it got, or
    was too short to tell."""
    found = list(_idle_gpus(roles))
    for role in roles:
        found += [*_unused_gpus(role), *_cpu_bound(role), *_memory(role)]
    return found


def _idle_gpus(roles: Sequence[RoleUse]) -> Iterator[Advice]:
    gpus = sum(role.all_gpus for role in roles)
    percent = utilization(roles)
    if percent is None or percent >= IDLE_PERCENT or not _enough(roles):
        return
    asked, them, wait = ("1 GPU", "it", "it waits")
    if gpus > 1:
        asked, them, wait = (f"{gpus} GPUs", "them", "they wait")
    yield _advice(
        "gpus_idle",
        f"Asked {asked}, used {percent:.0f} % of {them}. Ask for fewer, or look what {wait} for: "
        "data loading, the CPU, or a process that runs without a GPU.",
        gpus=gpus,
        percent=round(percent, 1),
    )


def _unused_gpus(role: RoleUse) -> Iterator[Advice]:
    idle, seen = role.gpus_idle, role.gpus_seen
    if not 0 < idle < seen or role.gpu_samples < MIN_SAMPLES * seen:
        return
    yield _advice(
        "some_gpus_idle",
        f"{idle} of the {seen} GPUs of {role.name} did next to nothing, the others worked. Let "
        "each process take its own GPU (LOCAL_RANK), or ask for fewer.",
        role=role.name,
        idle=idle,
        gpus=seen,
    )


def _cpu_bound(role: RoleUse) -> Iterator[Advice]:
    if role.gpu_utilization is None or role.cpu_percent is None or not role.cpus:
        return
    used = role.cpu_percent / role.cpus
    if role.gpu_utilization >= WAITING_PERCENT or used < BUSY_CPU_PERCENT or not _enough([role]):
        return
    yield _advice(
        "cpu_bound",
        f"Tasks of {role.name} used {used:.0f} % of their {_cores(role.cpus)} while their GPUs "
        f"were busy {role.gpu_utilization:.0f} % of the time. Ask for more CPUs.",
        role=role.name,
        cpus=role.cpus,
        cpu_percent=round(used, 1),
        gpu_percent=round(role.gpu_utilization, 1),
    )


def _memory(role: RoleUse) -> Iterator[Advice]:
    peak, asked = role.memory_peak_mb, role.memory_mb
    if peak is None or not asked:
        return
    details = {"role": role.name, "asked_mb": asked, "peak_mb": peak}
    if 100 * peak >= NEAR_LIMIT_PERCENT * asked:
        yield _advice(
            "memory_near_limit",
            f"A task of {role.name} came to {_gb(peak)} of its {_gb(asked)} of memory. Ask for "
            f"more, or it may be killed: {_gb(asked * 5 // 4)}, for example.",
            **details,
        )
    elif _enough([role]) and asked >= SPARE_MEMORY * peak and asked - peak >= SPARE_MEMORY_MB:
        yield _advice(
            "memory_unused",
            f"Tasks of {role.name} asked {_gb(asked)} of memory each and used {_gb(peak)} at "
            f"most. {_gb(max(2 * peak, 1024))} would do, and find a place sooner.",
            **details,
        )


def _enough(roles: Sequence[RoleUse]) -> bool:
    """Whether there were samples of half a minute of each GPU, of each task where it has none."""
    samples = sum(r.gpu_samples if r.gpus else r.cpu_samples for r in roles)
    return samples >= MIN_SAMPLES * sum(r.tasks * max(r.gpus, 1) for r in roles)


def _mean(weighted: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _advice(code: str, message: str, **details: Any) -> Advice:
    return {"code": code, "message": message, "details": details}


def _cores(cpus: float) -> str:
    return "1 core" if cpus == 1 else f"{cpus:g} cores"


def _gb(mb: int) -> str:
    return f"{mb} MB" if mb < 1024 else f"{mb / 1024:.3g} GB"
