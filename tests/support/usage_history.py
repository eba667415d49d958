"""Random histories of leases, written as rows on a clock of their own, and their naive recount."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from tests.support.platform_factories import make_gpus, make_job, make_node, make_user, make_vc

from skep_platform.cluster.models import Device
from skep_platform.jobs.models import Job, Lease, RankChange, Task, TaskAttempt
from skep_platform.telemetry.models import GpuRollup

START = datetime(2026, 10, 30, 21, 17, 3, 123457, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)


class Key(NamedTuple):
    """What a row of usage is of."""

    job: UUID
    day: date
    gpu_model: str
    guaranteed: bool


def floor_day(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


class UsageHistory:
    """Jobs of two users in two virtual clusters start, end, are preempted, lose and regain their
    rank. The clock goes on between them, and sometimes back, as a server's may."""

    def __init__(self, seed: int) -> None:
        self.random, self.now = random.Random(seed), START
        nodes = [
            make_node(gpus=make_gpus(f"{seed}-{model}", 3, model=model)) for model in ("A", "H")
        ]
        self.free = [device for node in nodes for device in Device.objects.filter(node=node)]
        self.users = [make_user(), make_user()]
        self.vcs = [make_vc(members=self.users), make_vc(members=self.users)]
        self.jobs: list[Job] = []
        self.held: dict[UUID, list[TaskAttempt]] = defaultdict(list)

    def pass_time(self) -> None:
        longest = self.random.choice([30, 3600, 100_000])
        self.now += timedelta(microseconds=self.random.randrange(longest * 1_000_000))

    def set_clock_back(self) -> None:
        self.now -= timedelta(seconds=self.random.choice([1, 600, 7200, 90_000]))

    def submit(self) -> None:
        vc, user = self.random.choice(self.vcs), self.random.choice(self.users)
        self.jobs.append(make_job(vc, user, tasks=2))

    def start(self) -> None:
        waiting = [job for job in self.jobs if not self.held[job.pk]]
        if not waiting or len(self.free) < 2:
            return
        job = self.random.choice(waiting)
        job.attempt += 1
        cell = self.random.choice(["", "A-NODE"])
        for task in Task.objects.filter(job=job):
            models = {device.model for device in self.free}
            model = self.random.choice(sorted(models)) if models else ""
            devices = [device for device in self.free if device.model == model]
            self._place(job, task, devices[: self.random.randint(1, 3)], cell)

    def _place(self, job: Job, task: Task, devices: list[Device], cell: str) -> None:
        attempt = TaskAttempt.objects.create(
            job=job,
            task=task,
            role=task.role,
            node=devices[0].node if devices else Device.objects.all()[0].node,
            index=job.attempt,
            epoch=job.attempt,
            gpu_uuids=[device.pk for device in devices],
            gpu_model=devices[0].model if devices else "",
            cell_type=cell,
            network="isolated",
        )
        Lease.objects.bulk_create(Lease(device=device, attempt=attempt) for device in devices)
        Lease.objects.filter(attempt=attempt).update(acquired_at=self.now)
        self.free = [device for device in self.free if device not in devices]
        self.held[job.pk].append(attempt)

    def end_task(self) -> None:
        """One task of a job releases its GPUs; the other one may go on."""
        running = [job for job in self.held if self.held[job]]
        if running:
            attempts = self.held[self.random.choice(running)]
            self._release(attempts.pop(self.random.randrange(len(attempts))))

    def preempt(self) -> None:
        """All tasks of a job release their GPUs at once; it may start again."""
        running = [job for job in self.held if self.held[job]]
        if running:
            job = self.random.choice(running)
            while self.held[job]:
                self._release(self.held[job].pop())

    def _release(self, attempt: TaskAttempt) -> None:
        TaskAttempt.objects.filter(pk=attempt.pk).update(released_at=self.now)
        Lease.objects.filter(attempt=attempt).update(released_at=self.now)
        self.free += Device.objects.filter(pk__in=attempt.gpu_uuids)

    def change_rank(self) -> None:
        running = [job for job in self.jobs if self.held[job.pk]]
        if running:
            job, guaranteed = self.random.choice(running), self.random.random() < 0.5
            RankChange.objects.create(
                job=job, index=job.attempt, at=self.now, guaranteed=guaranteed
            )

    def sample(self) -> None:
        """Store samples of some of the last minutes of all GPUs that are held."""
        rows = []
        for lease in Lease.objects.filter(released_at=None):
            at = self.now.replace(second=0, microsecond=0)
            for minute in self.random.sample(range(3), 2):
                rows.append(self._bucket(lease, at - minute * MINUTE))
        GpuRollup.objects.bulk_create(rows, ignore_conflicts=True)

    def _bucket(self, lease: Lease, at: datetime) -> GpuRollup:
        samples = self.random.randint(1, 12)
        return GpuRollup(
            device_id=lease.device_id,
            attempt_id=lease.attempt_id,
            at=at,
            seconds=60,
            samples=samples,
            utilization_sum=samples * self.random.choice([0.0, 11.0, 73.5, 100.0]),
            utilization_max=100.0,
            memory_used_mb_max=1,
        )


def recount(now: datetime) -> dict[Key, tuple[int, float, int]]:
    """Return allocated, used and known GPU-microseconds, by walking over every lease."""
    found: dict[Key, list[float]] = defaultdict(lambda: [0, 0.0, 0])
    buckets = defaultdict(list)
    for bucket in GpuRollup.objects.filter(attempt__isnull=False):
        buckets[bucket.attempt_id, bucket.device_id].append(bucket)
    for lease in Lease.objects.select_related("attempt"):
        attempt, end = lease.attempt, lease.released_at or now
        changes = list(
            RankChange.objects.filter(job=attempt.job_id, index=attempt.index).order_by("at", "id")
        )
        midnights = {floor_day(lease.acquired_at) + n * DAY for n in range(1, 400)}
        cuts = midnights | {change.at for change in changes}
        borders = sorted({c for c in cuts if lease.acquired_at < c < end} | {lease.acquired_at})
        for since, until in zip(borders, [*borders[1:], end], strict=True):
            if until <= since:
                continue
            ranks = [change.guaranteed for change in changes if change.at <= since]
            guaranteed = ranks[-1] if ranks else attempt.cell_type != ""
            key = Key(attempt.job_id, floor_day(since).date(), attempt.gpu_model, guaranteed)
            found[key][0] += (until - since) // MICROSECOND
            for bucket in buckets[attempt.pk, lease.device_id]:
                inside = min(until, bucket.at + MINUTE) - max(since, bucket.at)
                if inside > timedelta(0):
                    found[key][1] += (
                        inside / MICROSECOND * bucket.utilization_sum / bucket.samples / 100
                    )
                    found[key][2] += inside // MICROSECOND
    return {key: (int(a), used, int(known)) for key, (a, used, known) in found.items()}
