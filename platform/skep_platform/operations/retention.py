"""How each table of the database stays bounded.

A test compares this with the models: who adds one says here what keeps it from growing without end.
`docs/operations.md` has the settings.
"""

from __future__ import annotations

# By what people configure, or by the size of the cluster: they do not grow by themselves.
BOUNDED_BY_SIZE = frozenset(
    {
        *("accounts.User", "accounts.SshKey", "accounts.Group", "accounts.GroupMember"),
        *("tenancy.VirtualCluster", "tenancy.Quota", "tenancy.VcCell", "tenancy.PinnedCell"),
        *("tenancy.RoleGrant", "tenancy.Membership", "tenancy.ServiceAccount", "tenancy.VcLimit"),
        *("cluster.Node", "cluster.ControlPlane", "cluster.Device", "cluster.CellLayout"),
        "cluster.NodeCheck",  # `cluster.checks` keeps the newest ones of each node
        *("cluster.Announcement", "cluster.AnnouncementDismissal"),
        *("images.Image", "images.NodeImage", "images.RegistryCredential", "images.ImageRule"),
        *("storage.Storage", "storage.StorageGrant", "storage.Dataset"),
        *("templates.Template", "templates.TemplateStar", "jobs.SavedView"),
        *("notifications.Preferences", "notifications.Webhook", "operations.AlertRule"),
        *("usage.Budget", "usage.FairnessMeasure", "scheduling.VcTimeline", "core.Leadership"),
    }
)

# Rows of a job that has not ended; they go when it leaves the queue, ends or is released.
WHILE_A_JOB_LASTS = frozenset(
    {
        *("scheduling.Nomination", "scheduling.ReservedStart", "scheduling.PreemptionCooldown"),
        *("scheduling.ExpectedStart", "jobs.GangNetwork", "jobs.JobApiToken"),
    }
)

# Deleted by a periodic task: model -> the task, and the setting or constant that says when.
DELETED_BY = {
    "core.Event": ("skep.core.tidy_events", "SKEP_EVENT_RETENTION_DAYS"),
    "audit.AuditEntry": ("skep.audit.tidy", "SKEP_AUDIT_RETENTION_DAYS"),
    "telemetry.LogChunk": ("skep.telemetry.delete_old_logs", "SKEP_LOG_RETENTION_DAYS"),
    "telemetry.GpuRollup": ("skep.telemetry.delete_old_rollups", "SKEP_METRIC_RETENTION_DAYS"),
    "telemetry.TaskRollup": ("skep.telemetry.delete_old_rollups", "SKEP_METRIC_RETENTION_DAYS"),
    "telemetry.GpuHistory": ("skep.telemetry.delete_old_rollups", "SKEP_METRIC_DAILY_DAYS"),
    "telemetry.TaskHistory": ("skep.telemetry.delete_old_rollups", "SKEP_METRIC_DAILY_DAYS"),
    "telemetry.UserMetric": ("skep.telemetry.delete_old_rollups", "SKEP_METRIC_RETENTION_DAYS"),
    "telemetry.MetricLog": ("skep.telemetry.delete_old_rollups", "SKEP_METRIC_RETENTION_DAYS"),
    "telemetry.PredictionDay": ("skep.telemetry.delete_old_rollups", "calibration"),
    "usage.UsageDay": ("skep.usage.tidy", "SKEP_USAGE_JOB_RETENTION_DAYS"),
    "usage.UsageRollup": ("skep.usage.tidy", "SKEP_USAGE_RETENTION_DAYS"),
    "usage.JobUsage": ("skep.usage.tidy", "SKEP_USAGE_JOB_RETENTION_DAYS"),
    "notifications.Notification": ("skep.notifications.tidy", "SKEP_NOTIFICATION_RETENTION_DAYS"),
    "notifications.Delivery": ("skep.notifications.tidy", "SKEP_NOTIFICATION_RETENTION_DAYS"),
    "scheduling.Change": ("skep.scheduling.tidy", "source.KEEP"),
    "scheduling.VcUse": ("skep.scheduling.tidy", "planned.KEEP"),
    "simulations.Simulation": ("skep.simulations.tidy", "simulations.services"),
    "images.Prefetch": ("skep.images.tidy", "prefetching"),
    "images.NodePrefetch": ("skep.images.tidy", "prefetching"),
    "jobs.ArchivedJob": ("skep.operations.archive_jobs", "SKEP_JOB_ARCHIVE_KEEP_DAYS"),
    "jobs.ImageSave": ("skep.jobs.tidy_image_saves", "image_saves"),
    "files.Archive": ("skep.files.tidy", "files.services"),
    "interactive.AppSession": ("skep.interactive.tidy", "expires_at"),
    "accounts.ApiToken": ("skep.accounts.tidy", "expiry"),
    "accounts.DeviceLogin": ("skep.accounts.tidy", "expires_at"),
    "accounts.BrowserSession": ("skep.accounts.tidy", "ended sessions"),
    "accounts.AccountMail": ("skep.accounts.send_mails", "when it is sent"),
    "cluster.NodeFault": ("skep.operations.tidy", "SKEP_EVENT_RETENTION_DAYS"),
    "cluster.MaintenanceWindow": ("skep.operations.tidy", "SKEP_EVENT_RETENTION_DAYS"),
    "cluster.JoinToken": ("skep.operations.tidy", "expires_at"),
    "operations.Alert": ("skep.operations.tidy", "rules.KEPT"),
    "operations.Backup": ("skep.operations.tidy", "backups.MOST"),
}

# They go with the job that they belong to, when it is moved to the archive (`archiving`):
# SKEP_JOB_ARCHIVE_DAYS, by default never.
KEPT_WITH_THE_JOB = frozenset(
    {
        *(
            "jobs.Job",
            "jobs.JobSecrets",
            "jobs.JobFiles",
            "jobs.JobStorage",
            "jobs.JobShare",
            "jobs.JobDependency",
        ),
        *("jobs.JobAttempt", "jobs.RankChange", "jobs.TaskRole", "jobs.Task", "jobs.TaskAttempt"),
        *(
            "jobs.Lease",
            "jobs.PortLease",
            "telemetry.JobUse",
            "scheduling.AttainedService",
            "interactive.App",
        ),
    }
)


def known() -> frozenset[str]:
    """Return the models that are named here."""
    return BOUNDED_BY_SIZE | WHILE_A_JOB_LASTS | DELETED_BY.keys() | KEPT_WITH_THE_JOB
