"""Jobs → task roles → tasks → attempts, and the leases that attempts hold."""

from __future__ import annotations

from skep_platform.jobs.models.job import (
    ACTIVE_JOB_STATES,
    RETRIES,
    Job,
    JobApiToken,
    JobAttempt,
    JobDependency,
    JobFiles,
    JobSecrets,
    JobShare,
    JobStorage,
    RankChange,
    TaskRole,
)
from skep_platform.jobs.models.tasks import (
    GangNetwork,
    Lease,
    PortLease,
    Task,
    TaskAttempt,
)

__all__ = [
    "ACTIVE_JOB_STATES",
    "RETRIES",
    "GangNetwork",
    "Job",
    "JobApiToken",
    "JobAttempt",
    "JobDependency",
    "JobFiles",
    "JobSecrets",
    "JobShare",
    "JobStorage",
    "Lease",
    "PortLease",
    "RankChange",
    "Task",
    "TaskAttempt",
    "TaskRole",
]
