"""A node whose agent lies about its tasks, over the real socket."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.gateway_agent import Joined
from tests.support.gateway_rows import running_attempt

from skep_agent.protocol import AttemptFact, ReportAck
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.services import reconcile
from skep_platform.jobs.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)

VERDICTS = ["succeeded", "stopped", "owner_left", "SUCCEEDED", "preempted", "evicted"]


def fact(attempt: TaskAttempt, phase: str, seq: int, **fields: Any) -> AttemptFact:
    known = {"attempt_id": str(attempt.pk), "epoch": attempt.epoch, "seq": seq, "at": 0.0}
    return AttemptFact(phase=phase, **known | fields)  # type: ignore[arg-type]


def lie(port: int, **lies: Any) -> tuple[Job, TaskAttempt]:
    """A task that fails, as this report describes it."""
    joined = Joined(gpus=1)
    attempt = running_attempt(joined.node)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        agent.report(fact(attempt, "running", 1), fact(attempt, seq=2, **lies))
        agent.expect(ReportAck)
        reconcile()  # decides anew from what is stored
        agent.report(fact(attempt, "released", 3))
        agent.expect(ReportAck)
        reconcile()
    attempt.refresh_from_db()
    return Job.objects.get(), attempt


@pytest.mark.parametrize("code", VERDICTS)
@pytest.mark.parametrize("phase", ["failed", "exited"])
def test_a_failure_with_the_code_of_a_verdict_is_a_failure(port, phase, code):
    exit_code = 1 if phase == "exited" else None
    job, attempt = lie(port, phase=phase, exit_code=exit_code, error_code=code, message="No.")
    assert job.state in (JobState.FAILED, JobState.WAITING, JobState.RUNNING)
    assert job.verdict in ("FAILED", "")
    assert not job.job_attempts.exclude(outcome="FAILED").exists()
    assert attempt.error_code in ("failed", "")
    assert code in attempt.error_message, "what the node said is kept, as text"


def test_a_node_cannot_say_that_the_time_of_a_job_is_over(port):
    """With that code the server itself ends a job for good."""
    job, _ = lie(port, phase="failed", error_code="max_duration_exceeded")
    assert job.exit_reason is None or job.exit_reason["code"] != "max_duration_exceeded"


def test_a_stored_reason_with_the_code_of_a_verdict_does_not_decide(port):
    """As written by an older server."""
    joined = Joined(gpus=1)
    attempt = running_attempt(joined.node)
    why = {
        "code": "succeeded",
        "message": "Task worker-0 could not run (succeeded).",
        "details": {},
    }
    Job.objects.update(exit_reason=why)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        agent.report(fact(attempt, "exited", 1, exit_code=1), fact(attempt, "released", 2))
        agent.expect(ReportAck)
    reconcile()
    assert Job.objects.get().state != JobState.SUCCEEDED
