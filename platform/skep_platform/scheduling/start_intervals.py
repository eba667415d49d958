"""Between which moments waiting jobs start, by the predicted durations of the jobs before them.

It is computed when it is read, for the first jobs of a virtual cluster at once, and kept for some
seconds: no tick is longer for it. Without predictions there is no interval.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from uuid import UUID

from skep_platform.core.bulk import fetch
from skep_platform.jobs.models import Job
from skep_platform.scheduling.planned import timeline_of
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler import start_intervals as rule

MOST_RUNNING = 500
MOST_WAITING = 100
KEPT_S = 15.0
MOST_KEPT = 200  # virtual clusters

Interval = tuple[float, float]  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class _Waiting:
    job: rule.LineJob
    model: str
    priority: int


@dataclass(frozen=True, slots=True)
class _Queue:
    """The guaranteed jobs of a virtual cluster at `at`, and its GPUs by model."""

    at: float
    gpus: Mapping[str, int]
    running: Mapping[str, Sequence[rule.LineJob]]
    waiting: Sequence[_Waiting]


_kept: dict[UUID, tuple[float, dict[str, Interval]]] = {}
_lock = Lock()


def of_job(job: Job) -> Interval | None:
    """Return between which moments a waiting job starts with a probability of 80 %; None: nothing
    is known. Three queries, and none while the last answer for its virtual cluster is fresh."""
    if job.priority < 0 or not job.gpus:
        return None
    with _lock:
        until, found = _kept.get(job.vc_id, (0.0, {}))
    if until < time.monotonic():
        found = of_virtual_cluster(job.vc)
        with _lock:
            if len(_kept) >= MOST_KEPT:
                _kept.clear()
            _kept[job.vc_id] = (time.monotonic() + KEPT_S, found)
    return found.get(str(job.pk))


def of_virtual_cluster(vc: VirtualCluster) -> dict[str, Interval]:
    """Return the same of the first waiting jobs of a virtual cluster, by id. Three queries."""
    return _intervals(_read(vc), None)


def of_new_job(job: Job, gpu_model: str) -> Interval | None:
    """Return the same for a job that is not stored, behind all that are of its priority. Three
    queries."""
    if job.priority < 0 or not job.gpus:
        return None
    new = _Waiting(rule.LineJob("", job.gpus, None), gpu_model, job.priority)
    return _intervals(_read(job.vc), new).get("")


def forget() -> None:
    """Forget what is kept, as after the facts of a test changed."""
    with _lock:
        _kept.clear()


def _intervals(queue: _Queue, new: _Waiting | None) -> dict[str, Interval]:
    waiting = list(queue.waiting)
    if new is not None:
        place = next((i for i, w in enumerate(waiting) if w.priority < new.priority), len(waiting))
        waiting.insert(place, new)
    found: dict[str, Interval] = {}
    only = next(iter(queue.gpus)) if len(queue.gpus) == 1 else ""
    by_model: dict[str, list[rule.LineJob]] = defaultdict(list)
    for known in waiting:
        by_model[known.model or only].append(known.job)
    if "" in by_model:
        return {}  # it may go to any model, and then delays others there
    for model, jobs in by_model.items():
        spans = rule.intervals(queue.gpus.get(model, 0), queue.running.get(model, ()), jobs)
        found |= {pk: (queue.at + low, queue.at + high) for pk, (low, high) in spans.items()}
    return found


def _read(vc: VirtualCluster) -> _Queue:
    at = time.time()
    gpus = dict(fetch(GPUS, [vc.pk]))
    running: dict[str, list[rule.LineJob]] = defaultdict(list)
    waiting: dict[str, _Waiting] = {}
    params = {"vc": vc.pk, "running": MOST_RUNNING, "waiting": MOST_WAITING}
    for pk, wanted, prediction, started, model, priority in fetch(JOBS, params):
        known = rule.LineJob(
            pk, wanted, _lasts(prediction), max(at - started, 0.0) if started else 0.0
        )
        if started is None:
            waiting[pk] = _Waiting(known, model, priority)
        else:
            running[model].append(known)
    order = [entry["gang"] for entry in timeline_of(vc) if entry["gang"] in waiting]
    in_line = [waiting.pop(pk) for pk in order]
    return _Queue(at, gpus, running, [*in_line, *waiting.values()])


def _lasts(stored: str | None) -> rule.Lasts | None:
    prediction: Mapping[str, Any] | None = json.loads(stored) if stored else None
    if not prediction or prediction["low_s"] is None:
        return None
    return rule.Lasts(prediction["low_s"], prediction["median_s"], prediction["high_s"])


# Use is sampled each minute.
GPUS = """
SELECT DISTINCT ON (gpu_model) gpu_model, greatest(owned - bad - unavailable, 0)
  FROM scheduling_vcuse
 WHERE vc_id = %s AND at > now() - interval '10 minutes'
 ORDER BY gpu_model, at DESC
"""

JOBS = """
SELECT * FROM (
  (SELECT j.id::text, j.gpus, j.prediction, extract(epoch FROM j.placed_at)::float8,
          (SELECT a.gpu_model FROM jobs_taskattempt a WHERE a.job_id = j.id
            ORDER BY a.index DESC LIMIT 1), j.priority
     FROM jobs_job j
    WHERE j.vc_id = %(vc)s AND j.state IN ('WAITING', 'RUNNING') AND j.placed_at IS NOT NULL
      AND j.priority >= 0 AND j.downgraded IS NULL AND j.gpus > 0
    ORDER BY j.placed_at LIMIT %(running)s)
  UNION ALL
  (SELECT j.id::text, j.gpus, j.prediction, NULL,
          (SELECT r.gpu_model FROM jobs_taskrole r WHERE r.job_id = j.id
            ORDER BY r.position LIMIT 1), j.priority
     FROM jobs_job j
    WHERE j.vc_id = %(vc)s AND j.state = 'WAITING' AND j.placed_at IS NULL
      AND j.stop_requested_at IS NULL AND NOT j.awaits_dependencies
      AND j.priority >= 0 AND j.gpus > 0
    ORDER BY j.priority DESC, j.created_at, j.id LIMIT %(waiting)s)) found
"""
