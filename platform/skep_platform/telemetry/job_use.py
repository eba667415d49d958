"""What finished jobs made of what they were given, counted once for each, and what their owners
could ask for instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from skep_platform.core import notifications
from skep_platform.core.bulk import fetch
from skep_platform.core.errors import NotFound
from skep_platform.jobs.lifecycle import one_by_one
from skep_platform.jobs.models import Job, TaskAttempt, TaskRole
from skep_platform.telemetry import calibration
from skep_platform.telemetry.downsampling import GPU_ROWS, TASK_ROWS, first_row, last_row
from skep_platform.telemetry.models import JobUse

BATCH = 50  # jobs per round
SETTLE = timedelta(seconds=20)  # longer than a server keeps samples before it stores them
# GPUs that are still not clean then are counted as held until the job's end.
PATIENCE = timedelta(minutes=10)


def count_due() -> int:
    """Count jobs that finished a moment ago; returns how many. A constant number of queries, safe
    at any time: two rounds at once count the same twice and store it once. One that cannot be
    counted is logged and passed over for a while."""
    jobs: dict[UUID, Job] = {}
    counted: set[UUID] = set()

    def find(most: int) -> list[UUID]:
        jobs.update((job.pk, job) for job in _due().order_by("finished_at")[:most])
        return list(jobs)

    def count(ids: Sequence[UUID]) -> None:
        _count([jobs[pk] for pk in ids])
        counted.update(ids)

    one_by_one.change_due("use", find, BATCH, count)
    return len(counted)


def _count(jobs: Sequence[Job]) -> None:
    ids = [job.pk for job in jobs]
    roles, hours = _role_uses(ids), _gpu_hours(ids)
    uses = [_use(job, roles.get(job.pk, []), hours.get(job.pk, 0.0)) for job in jobs]
    JobUse.objects.bulk_create(uses, ignore_conflicts=True)
    mine = {job for (job,) in fetch(MARK, [ids])}
    calibration.count(job for job in jobs if job.pk in mine)
    with connection.cursor() as cursor:
        cursor.execute(WARMUPS, [ids])
    for job in ids:
        notifications.notify_topic("job", job)


def use_of(job: Job) -> JobUse:
    """Raises NotFound `not_yet` until it was counted."""
    use = JobUse.objects.filter(job=job).first()
    if use is None:
        raise NotFound(
            "The use of a job is known about half a minute after its end.", code="not_yet"
        )
    return use


def asked_by(job: Job) -> dict[str, float]:
    """GPUs of the whole job; CPUs and memory of one task, of the role that has the most."""
    most = TaskRole.objects.filter(job=job).aggregate(cpus=Max("cpu_millis"), mb=Max("memory_mb"))
    cpus, memory = most["cpus"] or 0, most["mb"] or 0
    return {"gpus": job.gpus, "cpus": cpus / 1000, "memory_mb": memory}


def _due() -> QuerySet[Job]:
    held = TaskAttempt.objects.filter(job=OuterRef("pk"), released_at=None)
    settled = Q(finished_at__lt=Now() - SETTLE) & ~Exists(held)
    return Job.objects.filter(
        settled | Q(finished_at__lt=Now() - PATIENCE),
        finished_at__isnull=False,
        use_counted=False,
    )


def _use(job: Job, roles: Sequence[RoleUse], gpu_hours: float) -> JobUse:
    return JobUse(
        job=job,
        gpu_hours=gpu_hours,
        gpu_utilization=utilization(roles),
        gpu_memory_peak_mb=_most(r.gpu_memory_peak_mb for r in roles),
        cpu_percent=cpu_percent(roles),
        memory_peak_mb=_most(r.memory_peak_mb for r in roles),
        advice=advise(roles),
    )


def _most(values: Any) -> int | None:
    return max((value for value in values if value is not None), default=None)


# Those that another round counted at the same time are not returned.
MARK = """
UPDATE jobs_job SET use_counted = true WHERE id = ANY(%s) AND NOT use_counted RETURNING id
"""

HOURS = """
SELECT job_id, sum(jsonb_array_length(a.gpu_uuids) * extract(epoch FROM
         greatest(coalesce(a.released_at, a.finished_at, j.finished_at) - a.created_at,
                  interval '0'))) / 3600
  FROM jobs_taskattempt a JOIN jobs_job j ON j.id = a.job_id
 WHERE a.job_id = ANY(%s)
 GROUP BY 1
"""

# The first metric that a task of an attempt wrote, else its first line. What was printed before the
# job itself began, such as by its runtime, counts as its line.
WARMUPS = """
UPDATE jobs_jobattempt ja SET warmup_s = greatest(found.first - extract(epoch FROM started_at), 0)
  FROM (SELECT a.job_id, a.index,
               coalesce(min(m.first), min(extract(epoch FROM l.at)::float8)) AS first
          FROM jobs_taskattempt a
          LEFT JOIN LATERAL (SELECT min(u.times[1]) AS first FROM telemetry_usermetric u
                              WHERE u.attempt_id = a.id) m ON true
          LEFT JOIN LATERAL (SELECT c.at FROM telemetry_logchunk c
                              WHERE c.attempt_id = a.id ORDER BY c.id LIMIT 1) l ON true
         WHERE a.job_id = ANY(%s)
         GROUP BY 1, 2) AS found
 WHERE ja.job_id = found.job_id AND ja.index = found.index
   AND ja.started_at IS NOT NULL AND found.first IS NOT NULL
"""

OF_ATTEMPT = f"""r.at >= {first_row("a.created_at")}
                       AND r.at < {last_row("coalesce(a.released_at, now())")}"""

# By role: percent, samples and peak over all attempts, then GPUs of the newest job attempt.
GPUS = f"""
SELECT role_id, sum(total) / sum(samples), sum(samples), max(memory),
       count(*) FILTER (WHERE newest),
       count(*) FILTER (WHERE newest AND total / samples < %s)
  FROM (SELECT a.role_id, a.index = j.attempt AS newest, sum(r.utilization_sum) AS total,
               sum(r.samples) AS samples, max(r.memory_used_mb_max) AS memory
          FROM jobs_job j
          JOIN jobs_taskattempt a ON a.job_id = j.id
          JOIN {GPU_ROWS} r ON r.attempt_id = a.id AND {OF_ATTEMPT}
         WHERE j.id = ANY(%s)
         GROUP BY a.id, j.attempt, r.device_id
        HAVING sum(r.samples) > 0) AS gpus
 GROUP BY 1
"""  # noqa: S608 no values

# The peak is the kernel's where the node reported it: samples may have missed it.
TASKS = f"""
SELECT role_id, sum(total) / nullif(sum(samples), 0), coalesce(sum(samples), 0), max(memory)
  FROM (SELECT a.role_id, sum(r.cpu_percent_sum) AS total, sum(r.samples) AS samples,
               greatest(max(r.memory_mb_max), a.memory_peak_mb) AS memory
          FROM jobs_taskattempt a
          LEFT JOIN {TASK_ROWS} r ON r.attempt_id = a.id AND {OF_ATTEMPT}
         WHERE a.job_id = ANY(%s)
         GROUP BY a.id) AS tasks
 GROUP BY 1
"""  # noqa: S608 no values


def _gpu_hours(jobs: list[UUID]) -> dict[UUID, float]:
    return {job: float(hours) for job, hours in _rows(HOURS, jobs)}


def _role_uses(jobs: list[UUID]) -> dict[UUID, list[RoleUse]]:
    gpus = {row[0]: row[1:] for row in _rows(GPUS, IDLE_GPU_PERCENT, jobs)}
    tasks = {row[0]: row[1:] for row in _rows(TASKS, jobs)}
    found: dict[UUID, list[RoleUse]] = defaultdict(list)
    for role in TaskRole.objects.filter(job__in=jobs).order_by("position"):
        use = _role_use(role, gpus.get(role.pk), tasks.get(role.pk))
        found[role.job_id].append(use)
    return found


def _role_use(role: TaskRole, gpus: Any, tasks: Any) -> RoleUse:
    percent, gpu_samples, gpu_memory, seen, idle = gpus or (None, 0, None, 0, 0)
    cpu, cpu_samples, memory = tasks or (None, 0, None)
    return RoleUse(
        name=role.name,
        tasks=role.instances,
        gpus=role.gpus,
        cpus=role.cpu_millis / 1000,
        memory_mb=role.memory_mb,
        gpu_utilization=percent,
        gpu_samples=int(gpu_samples),
        gpu_memory_peak_mb=gpu_memory,
        gpus_seen=seen,
        gpus_idle=idle,
        cpu_percent=cpu,
        cpu_samples=int(cpu_samples),
        memory_peak_mb=memory,
    )


def _rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


MIN_SAMPLES = 6  # of a GPU or a container: less says nothing about a job
IDLE_GPU_PERCENT = 5.0  # one of several that are not used
IDLE_PERCENT = 15.0  # of all GPUs together
WAITING_PERCENT = 50.0  # GPUs that could have done twice as much
BUSY_CPU_PERCENT = 90.0  # of the cores asked for
SPARE_MEMORY = 4  # times of what was used
SPARE_MEMORY_MB = 8192  # less is not worth a word
NEAR_LIMIT_PERCENT = 90.0

Advice = dict[str, Any]  # {code, message, details}


@dataclass(frozen=True, slots=True)
class RoleUse:
    """What each task of a role asked for, and what its tasks used. None: it was not measured."""

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
    was too short to say."""
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
