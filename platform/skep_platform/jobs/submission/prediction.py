"""How long a job is expected to run, by earlier jobs of its owner that were like it.

The ways in which jobs are alike are asked in turn: the same name but for a number, the same
commands and image, the same number of GPUs. An interval is given only where enough of them ended:
of n earlier durations the k-th least and the k-th largest hold the next one with a probability of
(n + 1 - 2k) / (n + 1), if the jobs are exchangeable (Vovk, Gammerman and Shafer, "Algorithmic
Learning in a Random World", 2005, chapter 2). For 80 % this needs nine jobs.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from skep_jobfile import JobFile
from skep_platform.accounts.models import User
from skep_platform.core.bulk import fetch
from skep_platform.core.remembered import Remembered
from skep_platform.jobs.models import Job
from skep_platform.tenancy import queries as tenancy

# What clones and scripts append to a name: a number, or eight hexadecimal digits.
SUFFIX = re.compile(r"[-_.]([0-9]{1,9}|[0-9a-f]{8})$")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
SOURCES = ("name", "command", "gpus")
LIKE_IT = 20  # the newest ones
LOOKED_AT = 200  # newest jobs of the owner, for those of the same number of GPUs
COVERAGE = 0.8  # of an interval
FRESH_S = 1.0
UNMEASURED: dict[str, Any] = {"leave_s": None, "warmup_s": None}  # of jobs of older versions
ENOUGH = round(2 / (1 - COVERAGE)) - 1


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds from start to success. `low_s` and `high_s` hold it with a probability of `COVERAGE`;
    None: fewer than `ENOUGH` jobs were alike. `source` is one of `SOURCES`.

    leave_s: how long it takes to save and leave when it is preempted; None: not measured yet
    warmup_s: how long it takes after a start to its first metric, else its first line
    """

    median_s: int
    low_s: int | None
    high_s: int | None
    source: str
    jobs: int
    leave_s: float | None = None
    warmup_s: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "median_s": self.median_s,
            "low_s": self.low_s,
            "high_s": self.high_s,
            "source": self.source,
            "jobs": self.jobs,
            "leave_s": self.leave_s,
            "warmup_s": self.warmup_s,
        }


def base_name(name: str) -> str:
    """Return the name without the suffix by which repeated submissions differ."""
    return SUFFIX.sub("", name) or name


def command_key(job: JobFile) -> str:
    """Return what jobs have in common that run the same commands in the same image on as many
    GPUs, whatever numbers the commands have and whatever tag the image has."""
    roles = [
        [
            NUMBER.sub("0", "\n".join(role.commands)),
            _without_tag(job.image_of(role).uri),
            role.instances,
            role.resource_per_instance.gpu,
        ]
        for role in job.task_roles.values()
    ]
    return hashlib.sha256(json.dumps(roles).encode()).hexdigest()[:16]


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    return name if ":" not in name.rpartition("/")[2] else name.rpartition(":")[0]


def predict(user: User, name: str, command: str, gpus: int) -> Prediction | None:
    """Return what the user's earlier jobs say of one with this name, key of its commands and number
    of GPUs; None: there was none. One query, which reads at most `LIKE_IT` rows of an index for
    each way, and `LOOKED_AT` for the last, however many jobs the user has. It is remembered for a
    second: a job that has ended within it may be missing."""
    params = _params(user.pk, name, command, gpus)
    key = (user.pk, params["base"], command, gpus)
    return _remembered.get(key, lambda: _predicted(params))


_remembered: Remembered[Prediction | None] = Remembered(FRESH_S)
_remembered.forget_at_changes_of(Job)


def _predicted(params: dict[str, Any]) -> Prediction | None:
    [(*found, leave_s, warmup_s)] = fetch(DURATIONS, params)
    known = of_durations(dict(zip(SOURCES, found, strict=True)))
    if known is None:
        return None
    return replace(known, leave_s=_tenths(leave_s), warmup_s=_tenths(warmup_s))


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def shown_to(user: Any, job: Job) -> dict[str, Any] | None:
    """Return the prediction of a job for someone who may stop it, made of no job that the reader
    may not see: all of its owner's for the owner and admins, those of its virtual cluster for VC
    admins, and with the token of a job."""
    sees_all = job.owner_id == user.pk or tenancy.is_admin(user)
    if sees_all and tenancy.only_vc(user) is None:
        return UNMEASURED | job.prediction if job.prediction else None
    found = predict_within(job)
    return found.as_json() if found else None


def predict_within(job: Job) -> Prediction | None:
    """Return what its owner's earlier jobs of its virtual cluster say of a job, for those who may
    not know of the others. One query, and none for a job that was like no other one."""
    if job.prediction is None:
        return None
    params = _params(job.owner_id, job.name, job.command_key, job.gpus)
    [(*found, _, _)] = fetch(WITHIN, params | {"vc": job.vc_id, "before": job.created_at})
    return of_durations(dict(zip(SOURCES, found, strict=True)))


def _params(owner: int, name: str, command: str, gpus: int) -> dict[str, Any]:
    return {
        "owner": owner,
        "base": base_name(name),
        "command": command,
        "gpus": gpus,
        "like_it": LIKE_IT,
        "looked_at": LOOKED_AT,
        "enough": ENOUGH,
    }


def of_durations(by_source: dict[str, Sequence[float] | None]) -> Prediction | None:
    """Return the prediction of the first source that has enough durations (seconds, in any order),
    else of the first one that has any."""
    known = [(source, sorted(found)) for source, found in by_source.items() if found]
    if not known:
        return None
    source, seconds = next((k for k in known if len(k[1]) >= ENOUGH), known[0])
    number = len(seconds)
    middle = (seconds[(number - 1) // 2] + seconds[number // 2]) / 2
    low = high = None
    if number >= ENOUGH:
        outside = int((number + 1) * (1 - COVERAGE) / 2 + 1e-9)
        low, high = math.floor(seconds[outside - 1]), math.ceil(seconds[-outside])
    return Prediction(max(round(middle), 1), low, high, source, number)


# The index `job_by_base_name` has the same expression, and the pattern is `SUFFIX`. The second and
# the third part are read only where those before them found too few.
DURATIONS = r"""
WITH named AS MATERIALIZED (
       SELECT id, extract(epoch FROM finished_at - started_at)::float8 AS seconds
         FROM jobs_job
        WHERE owner_id = %(owner)s AND state = 'SUCCEEDED'
          AND started_at IS NOT NULL AND finished_at IS NOT NULL
          AND %(base)s = coalesce(
                nullif(regexp_replace(name, '[-_.]([0-9]{1,9}|[0-9a-f]{8})$', ''), ''), name)
        ORDER BY created_at DESC LIMIT %(like_it)s),
     commanded AS MATERIALIZED (
       SELECT extract(epoch FROM finished_at - started_at)::float8 AS seconds
         FROM jobs_job
        WHERE (SELECT count(*) FROM named) < %(enough)s
          AND owner_id = %(owner)s AND command_key = %(command)s AND state = 'SUCCEEDED'
          AND started_at IS NOT NULL AND finished_at IS NOT NULL
        ORDER BY created_at DESC LIMIT %(like_it)s),
     sized AS MATERIALIZED (
       SELECT extract(epoch FROM finished_at - started_at)::float8 AS seconds
         FROM (SELECT state, gpus, started_at, finished_at, created_at FROM jobs_job
                WHERE (SELECT count(*) FROM named) = 0 AND (SELECT count(*) FROM commanded) = 0
                  AND owner_id = %(owner)s
                ORDER BY created_at DESC LIMIT %(looked_at)s) AS newest
        WHERE state = 'SUCCEEDED' AND gpus = %(gpus)s
          AND started_at IS NOT NULL AND finished_at IS NOT NULL
        ORDER BY created_at DESC LIMIT %(like_it)s)
SELECT (SELECT array_agg(seconds) FROM named), (SELECT array_agg(seconds) FROM commanded),
       (SELECT array_agg(seconds) FROM sized),
       (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a.leave_s)
          FROM named n JOIN jobs_jobattempt a ON a.job_id = n.id),
       (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a.warmup_s)
          FROM named n JOIN jobs_jobattempt a ON a.job_id = n.id)
"""

# The same of one virtual cluster, as it was when a job came.
WITHIN = DURATIONS.replace(
    "owner_id = %(owner)s",
    "owner_id = %(owner)s AND vc_id = %(vc)s AND created_at < %(before)s",
)
