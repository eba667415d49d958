"""The reconciler of jobs: what a lost hint, a lost node or a killed process left undone.

Every state that is not an end has its way on here:
  attempt of a LOST node        released, LOST
  ASSIGNED for too long         the node is told again; past START_TIMEOUT_S it failed to start
  ready, told to begin          the node is told again
  STOPPING, ended, unreleased   the node is told again, until it confirms or its lease is over
  gang that is held             past its barrier the tasks that are not ready fail
  job over its duration         fails
  job that is to be diagnosed   past DIAGNOSIS_TIMEOUT_S nobody knows why it failed
  job whose tasks moved on      `advance`, as after facts
PREPARING is bounded by the agent (a pull without progress fails there), RUNNING by the lease of
the node.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.cluster.models import NodeState
from skep_platform.cluster.services import bump_revision
from skep_platform.core.bulk import fetch
from skep_platform.jobs.life import deadlines
from skep_platform.jobs.life.advance import advance
from skep_platform.jobs.life.locked import lock
from skep_platform.jobs.life.reporting import fail_to_start, lose
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import ATTEMPT, AttemptState

BATCH = 200  # jobs per transaction
TELL_AGAIN_S = 30.0
START_TIMEOUT_S = 300.0


def reconcile() -> None:
    """Short, safe at any moment and in any number: rows that another run holds are skipped."""
    _release_lost_nodes()
    _fail_late_starts()
    _tell_again()
    _advance_due()
    deadlines.end_barriers(BATCH)
    deadlines.tell_barriers(BATCH)
    deadlines.end_overtime(BATCH)


def _release_lost_nodes() -> None:
    gone = [NodeState.LOST, NodeState.REMOVED]
    held = TaskAttempt.objects.filter(released_at=None, node__state__in=gone)
    while held.exists() and lose(held, BATCH):
        pass


def _fail_late_starts() -> None:
    begin = Now() - timedelta(seconds=START_TIMEOUT_S)
    late = _living().filter(state=AttemptState.ASSIGNED, created_at__lt=begin)
    if late.exists():
        fail_to_start(late, BATCH)


def _tell_again() -> None:
    """Agents forget nothing, but the message may be lost, and the row may be of an older server."""
    waiting = Q(state=AttemptState.ASSIGNED) | Q(state=AttemptState.STOPPING)
    waiting |= Q(state__in=ATTEMPT.terminal)
    waiting |= Q(state=AttemptState.PREPARING, ready_at__isnull=False, job__begun_at__isnull=False)
    # Said first and simply, so that what runs is not looked up with its job.
    late = _living().exclude(state=AttemptState.RUNNING)
    late = late.filter(waiting, updated_at__lt=Now() - timedelta(seconds=TELL_AGAIN_S))
    found = list(late.values_list("pk", "node")[: BATCH * 10])
    if not found:
        return
    with transaction.atomic():
        TaskAttempt.objects.filter(pk__in=[pk for pk, _ in found]).update(updated_at=Now())
        bump_revision({node for _, node in found})


def _advance_due() -> None:
    with transaction.atomic():
        due = [pk for (pk,) in fetch(DUE, [BATCH])]
        if due:
            jobs = lock(Job.objects.filter(pk__in=due), skip_locked=True)
            bump_revision(advance(jobs, timezone.now()))


# Placed jobs on which something may have to be done: a superset, found without a lock. By a task
# that ended, began, is ready, or is left of a job that was told to end. The OFFSET keeps the
# database from walking all jobs that ever were, in the order of their ids.
DUE = """
SELECT id
  FROM (SELECT j.id
          FROM jobs_job j,
               LATERAL (SELECT
                          FROM jobs_taskattempt a
                         WHERE a.job_id = j.id AND a.index = j.attempt
                           AND (a.state IN ('SUCCEEDED', 'FAILED', 'STOPPED', 'LOST')
                             OR a.state = 'RUNNING' AND j.state = 'WAITING'
                             OR (a.state = 'RUNNING' OR a.ready_at IS NOT NULL)
                                AND j.begun_at IS NULL AND j.tasks_total > 1 AND NOT j.incremental
                             OR a.state IN ('ASSIGNED', 'PREPARING', 'RUNNING')
                                AND (j.stop_requested_at IS NOT NULL OR j.exit_reason IS NOT NULL
                                     OR j.preempting_at IS NOT NULL))
                         LIMIT 1) present
         WHERE j.state IN ('WAITING', 'RUNNING', 'STOPPING') AND j.placed_at IS NOT NULL
        OFFSET 0) due
 ORDER BY id
 LIMIT %s
"""


def _living() -> QuerySet[TaskAttempt]:
    return TaskAttempt.objects.filter(released_at=None, node__state=NodeState.ONLINE)
