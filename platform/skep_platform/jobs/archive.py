"""The archive of finished jobs: one row for each, with what people look up later.

`operations.archiving` moves jobs into it. Who saw a job sees it in the archive (`jobs.visibility`),
but for those whom its owner shared it with by name: their rows go with the job. The address of an
archived job is that of the job, below another path.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Upper

from skep_platform.core.errors import NotFound
from skep_platform.jobs import visibility
from skep_platform.jobs.states import JobState
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import Visibility

TRIGRAM = 3  # characters that the index of names needs
NO_JOB = "There is no such job."


class ArchivedJob(models.Model):
    """A finished job that was moved here, with the id that it had. Names of its owner and virtual
    cluster are those of that time; they are shown where the rows are gone.

    `record` has {spec_text, tags, roles, attempts, exit_reason, events, use, shortened}: see
    `operations.archiving`. It never has secrets, and no names of other jobs."""

    id = models.UUIDField(primary_key=True, editable=False)
    name = models.CharField(max_length=255)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", db_index=False
    )
    owner_name = models.CharField(max_length=150)
    vc = models.ForeignKey(
        "tenancy.VirtualCluster", models.SET_NULL, null=True, related_name="+", db_index=False
    )
    vc_name = models.CharField(max_length=63)
    # As of the job: who else sees it; "": as its virtual cluster says.
    visibility = models.CharField(max_length=8, choices=Visibility.choices, blank=True, default="")
    state = models.CharField(max_length=16, choices=JobState.choices)
    priority_class = models.CharField(max_length=16)
    gpus = models.PositiveIntegerField()  # of the whole gang
    tasks_total = models.PositiveIntegerField()
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField()
    archived_at = models.DateTimeField()
    record = models.JSONField()

    class Meta:
        indexes = [
            models.Index(fields=["-submitted_at", "id"], name="archived_newest"),
            models.Index(fields=["owner", "-submitted_at"], name="archived_by_owner"),
            models.Index(fields=["vc", "-submitted_at"], name="archived_by_vc"),
            GinIndex(OpClass(Upper("name"), "gin_trgm_ops"), name="archived_name_search"),
            models.Index(fields=["archived_at"], name="archived_oldest"),
            # Those that their owners opened to others: few.
            models.Index(
                fields=["-submitted_at", "id"],
                condition=~Q(visibility=""),
                name="archived_opened",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def owner_now(self) -> str:
        """The owner's name; as it was then, where the account is gone."""
        return str(self.owner.username) if self.owner else self.owner_name

    @property
    def vc_now(self) -> str:
        """The name of its virtual cluster; as it was then, where that is gone."""
        return self.vc.name if self.vc else self.vc_name


def visible_to(user: Any) -> QuerySet[ArchivedJob]:
    """Select the archived jobs that exist for this user; all for an admin."""
    rows = ArchivedJob.objects.select_related("owner", "vc")
    return rows if tenancy.is_admin(user) else rows.filter(visibility.of_jobs(user))


def find(user: Any, job_id: UUID) -> ArchivedJob:
    """Return the archived job. Raises NotFound, also when the user may not see it."""
    row = visible_to(user).filter(pk=job_id).first()
    if row is None:
        raise NotFound("There is no such job in the archive.")
    return row


def missing(user: Any, job_id: UUID) -> NotFound:
    """Return the error for a job that is not there: `job_archived`, with the address, for those who
    may see it in the archive. The tokens of jobs do not reach the archive."""
    if tenancy.only_vc(user) is not None:
        return NotFound(NO_JOB)
    found = visible_to(user).filter(pk=job_id).values_list("archived_at", flat=True).first()
    if found is None:
        return NotFound(NO_JOB)
    address = f"/api/v1/archived-jobs/{job_id}"
    return NotFound(
        f"The job was moved to the archive on {found:%Y-%m-%d}; what is kept of it is at "
        f"{address}.",
        code="job_archived",
        address=address,
        archived_at=found.isoformat(),
    )


def search(
    rows: QuerySet[ArchivedJob],
    *,
    states: Collection[str] = (),
    virtual_clusters: Collection[str] = (),
    owners: Collection[str] = (),
    name: str = "",
    text: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[ArchivedJob]:
    """Filter archived jobs as `jobs.queries.search` filters jobs. `since` and `until` (not
    included) bound when a job was submitted."""
    if since:
        rows = rows.filter(submitted_at__gte=since)
    if until:
        rows = rows.filter(submitted_at__lt=until)
    if states:
        rows = rows.filter(state__in=states)
    if virtual_clusters:
        gone = Q(vc=None, vc_name__in=virtual_clusters)
        rows = rows.filter(Q(vc__name__in=virtual_clusters) | gone)
    if owners:
        rows = rows.filter(Q(owner__username__in=owners) | Q(owner=None, owner_name__in=owners))
    if name:
        rows = rows.filter(name=name)
    # The index of names is one for searches; it finds a whole name, too.
    for part in filter(None, (name, text)):
        how = "icontains" if len(part) >= TRIGRAM else "istartswith"
        rows = rows.filter(**{f"name__{how}": part})
    return rows
