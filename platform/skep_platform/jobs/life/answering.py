"""Taking the diagnosis of a job whose logs had to be read for it."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from skep_platform.cluster.services import bump_revision
from skep_platform.jobs.life import blame
from skep_platform.jobs.life.advance import advance, lock
from skep_platform.jobs.life.diagnosing import Diagnosis
from skep_platform.jobs.models import Job


@transaction.atomic
def answer(job_id: UUID, attempt: int, diagnosis: Diagnosis) -> bool:
    """Store why this attempt of the job failed and let the job go on; False when nobody waits for
    it any more: it was answered before, the job was stopped, or is at another attempt."""
    waiting = Job.objects.filter(pk=job_id, attempt=attempt, diagnosing_at__isnull=False)
    if not waiting.select_for_update(no_key=True).exists():
        return False
    now = timezone.now()
    told = {"diagnosis": diagnosis.as_dict(), "diagnosing_at": None, "updated_at": now}
    waiting.update(**told, diagnosis_claimed_until=None)
    blame.remember([diagnosis], now)
    bump_revision(advance(lock(Job.objects.filter(pk=job_id)), now))
    return True
