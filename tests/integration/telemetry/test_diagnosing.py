"""Jobs that failed are explained from the logs of the tasks that failed first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.files.storage import storages
from django.db import connection
from django.utils import timezone
from tests.support.at_once import at_once
from tests.support.gateway_rows import frame
from tests.support.jobs_world import attempts_of, placed, report
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.cluster.models import NodeFault
from skep_platform.core import notifications
from skep_platform.jobs.lifecycle import diagnosing as facts
from skep_platform.jobs.lifecycle.advance import record_diagnosis
from skep_platform.jobs.models import Job, JobAttempt, TaskAttempt
from skep_platform.telemetry import diagnosing
from skep_platform.telemetry.diagnosing import AttemptOutput, diagnose_due
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.services import append_logs

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
ECHO = b"[rank0]: torch.distributed.DistBackendError: NCCL error, connection closed by peer\n"


@pytest.fixture
def job() -> Job:
    return failed_job(tasks=2)


def failed_job(**fields) -> Job:
    """It waits for its diagnosis."""
    moments = ("placed_at", "begun_at", "started_at", "diagnosing_at")
    waiting = dict.fromkeys(moments, timezone.now()) | {"attempt": 1, "state": "RUNNING"}
    reason = {"code": "task_failed", "message": "A task failed.", "details": {}}
    decided = {"exit_reason": reason, "verdict": "FAILED"}
    return make_job(make_vc(), make_user(), **decided, **waiting | fields)


def fail(
    job: Job,
    rank: int = 0,
    *,
    err: bytes = b"",
    out: bytes = b"",
    ended: bool = True,
    ago: float = 1.0,
    **fields,
) -> TaskAttempt:
    """A task of the job has failed so many seconds ago, and wrote this."""
    node = make_node()
    attempt = place(job, [], node=node, rank=rank, state="RUNNING")
    write(attempt, "stdout", out)
    write(attempt, "stderr", err)
    at = timezone.now() - timedelta(seconds=ago)
    known = {"state": "FAILED", "exit_code": 1, "started_at": at, "finished_at": at}
    if ended:
        known["log_sizes"] = {"stdout": len(out), "stderr": len(err)}
    TaskAttempt.objects.filter(pk=attempt.pk).update(
        **known | fields | {"released_at": timezone.now()}
    )
    return attempt


def write(attempt: TaskAttempt, stream: str, data: bytes, offset: int = 0) -> None:
    if data:
        append_logs(attempt.node_id, [frame(attempt, offset, data, stream)])


def found(job: Job) -> dict:
    job.refresh_from_db()
    assert job.diagnosing_at is None
    return job.diagnosis


@pytest.mark.django_db
class TestVerdict:
    def test_the_job_and_its_task_are_reported_and_the_job_goes_on(self, job):
        attempt = fail(job, err=b"Traceback (most recent call last):\n" + OOM)
        assert diagnose_due() == 1
        diagnosis = found(job)
        assert (diagnosis["code"], diagnosis["task"], diagnosis["node"]) == (
            226,
            "worker-0",
            attempt.node.name,
        )
        assert diagnosis["evidence"] == {
            "source": "log",
            "text": OOM.decode().strip(),
            "log": "stderr",
            "line": 2,
        }
        attempt.refresh_from_db()
        assert attempt.diagnosis == diagnosis
        assert job.state == "FAILED"
        assert diagnose_due() == 0

    def test_the_cause_is_found_in_the_task_that_failed_first(self, job):
        fail(job, 0, err=ECHO, ago=2.0)
        fail(job, 1, out=b"step 1\n" + OOM, ago=3.0)
        diagnose_due()
        diagnosis = found(job)
        assert (diagnosis["rank"], diagnosis["evidence"]["log"]) == (1, "stdout")
        assert diagnosis["evidence"]["line"] == 2

    def test_a_node_to_blame_is_counted(self, job):
        attempt = fail(job, err=b"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
        diagnose_due()
        assert NodeFault.objects.get().attempt_id == attempt.pk
        assert found(job)["blame"] == "node"

    def test_a_log_without_a_signature_says_so(self, job):
        fail(job, out=b"\x00\xff\x1b[31mstep\n")
        diagnose_due()
        assert found(job)["category"] == "No signature"

    def test_evidence_with_control_characters_can_be_stored(self, job):
        fail(job, err=b"\x00KeyError\x00: \xff CUDA out of memory\x00\n")
        diagnose_due()
        assert found(job)["evidence"]["text"] == "KeyError : \ufffd CUDA out of memory"

    def test_a_task_that_was_tried_again_by_itself_explains_nothing(self, job):
        fail(job, 0, err=OOM, ago=60.0, diagnosis={"code": 226})
        fail(job, 1, err=b"KeyError: 'x'\n")
        diagnose_due()
        assert found(job)["rank"] == 1


@pytest.mark.django_db
class TestWaiting:
    def test_logs_that_have_not_ended_are_waited_for(self, job):
        attempt = fail(job, err=b"step 1\n", ended=False)
        assert diagnose_due() == 0
        write(attempt, "stderr", OOM, offset=7)
        TaskAttempt.objects.filter(pk=attempt.pk).update(log_sizes={"stdout": 0, "stderr": 75})
        assert diagnose_due() == 1
        assert found(job)["code"] == 226

    @pytest.mark.parametrize(
        "fields",
        [{"ago": 21.0}, {"state": "LOST"}, {"started_at": None}],
        ids=["too long", "its node was lost", "it never started"],
    )
    def test_a_log_that_will_not_end_is_read_as_it_is(self, job, fields):
        fail(job, err=OOM, ended=False, **fields)
        assert diagnose_due() == 1
        assert found(job)["code"] == 226

    def test_jobs_that_wait_for_no_diagnosis_are_left_alone(self, job):
        fail(job, err=OOM)
        Job.objects.update(diagnosing_at=None)
        assert diagnose_due() == 0
        job.refresh_from_db()
        assert job.diagnosis is None

    def test_an_answer_that_no_one_waits_for_is_dropped(self, job):
        fail(job, err=OOM)
        diagnosis = facts.by_code("preempted")
        assert not record_diagnosis(job.pk, 2, diagnosis)
        Job.objects.update(diagnosing_at=None)
        assert not record_diagnosis(job.pk, 1, diagnosis)
        job.refresh_from_db()
        assert job.diagnosis is None


@pytest.mark.django_db
class TestPoison:
    def test_a_reader_that_fails_leaves_the_facts(self, job, monkeypatch):
        fail(job, err=OOM, exit_code=139)

        def broken(*args, **options):
            raise RuntimeError("of the reader")

        monkeypatch.setattr(diagnosing, "AttemptOutput", broken)
        assert diagnose_due() == 1
        assert found(job)["name"] == "ContainerSigSegvReceived"

    def test_bytes_that_the_store_lost_do_not_matter(self, job):
        fail(job, err=OOM, out=b"a\n")
        for key in LogChunk.objects.values_list("key", flat=True):
            storages["logs"].delete(key)
        assert diagnose_due() == 1
        assert found(job)["category"] == "No signature"

    def test_a_reader_that_never_came_back_is_followed_by_one_that_reads_no_log(self, job):
        fail(job, err=OOM)
        claimed = diagnosing._claim()
        assert claimed is not None
        assert diagnose_due() == 0  # it is being read
        past = timezone.now() - diagnosing.CLAIM
        Job.objects.update(diagnosing_at=past, diagnosis_claimed_until=timezone.now())
        assert diagnose_due() == 1
        assert found(job)["category"] == "No signature"

    def test_a_claim_of_an_earlier_attempt_holds_no_one_up(self, job):
        fail(job, err=OOM)
        Job.objects.update(diagnosis_claimed_until=timezone.now() + timedelta(seconds=60))
        assert diagnose_due() == 1
        assert found(job)["code"] == 226

    def test_one_job_that_fails_to_be_read_does_not_stop_the_next(self, job, monkeypatch):
        fail(job, err=b"poison\n")
        other = failed_job()
        fail(other, err=OOM)
        whole = AttemptOutput.__iter__

        def poisoned(self):
            for data in whole(self):
                if b"poison" in data:
                    raise ValueError("poison")
                yield data

        monkeypatch.setattr(AttemptOutput, "__iter__", poisoned)
        assert diagnose_due() == 2
        assert found(other)["code"] == 226
        assert found(job)["category"] == "No signature"


@pytest.mark.django_db(transaction=True)
def test_two_workers_never_read_the_same_job(job):
    fail(job, err=OOM)
    claims = at_once(diagnosing._claim, diagnosing._claim)
    assert sorted(claim is None for claim in claims) == [False, True]
    assert not connection.in_atomic_block


@pytest.mark.django_db
class TestOutput:
    @pytest.fixture
    def attempt(self) -> TaskAttempt:
        return place(make_job(make_vc(), make_user()), [], node=make_node(), state="RUNNING")

    @pytest.fixture
    def text(self, attempt) -> Callable[[], bytes]:
        return lambda: b"".join(AttemptOutput(attempt.pk))

    def test_lines_of_both_streams_follow_each_other_and_are_never_mixed(self, attempt, text):
        write(attempt, "stdout", b"one\ntw")
        write(attempt, "stderr", b"oops\n")
        write(attempt, "stdout", b"o\nthree", offset=6)
        assert text() == b"one\noops\ntwo\nthree\n"

    def test_only_the_newest_bytes_are_read(self, attempt, text, monkeypatch):
        monkeypatch.setattr(diagnosing, "MAX_BYTES", 8)
        for number in range(4):
            write(attempt, "stdout", b"%d23\n" % number, offset=4 * number)
        assert text() == b"223\n323\n"
        read = AttemptOutput(attempt.pk)
        assert list(read)
        assert read.place(1) == ("stdout", 0)

    def test_a_line_without_an_end_is_cut(self, attempt, text, monkeypatch):
        monkeypatch.setattr(diagnosing, "MAX_LINE", 6)
        for number in range(3):
            write(attempt, "stdout", b"abcd", offset=4 * number)
        assert text() == b"abcdabcd\nabcd\n"

    def test_a_line_reports_its_stream_and_its_number_there(self, attempt):
        write(attempt, "stdout", b"a\nb\n")
        write(attempt, "stderr", b"c\n")
        write(attempt, "stdout", b"d\ne\n", offset=4)
        read = AttemptOutput(attempt.pk)
        assert b"".join(read) == b"a\nb\nc\nd\ne\n"
        assert [read.place(line) for line in (1, 2, 3, 4, 5)] == [
            ("stdout", 1),
            ("stdout", 2),
            ("stderr", 1),
            ("stdout", 3),
            ("stdout", 4),
        ]


@pytest.mark.django_db
def test_the_end_of_a_log_asks_for_the_diagnosis_of_a_job_that_waits_for_one(
    job, monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr(notifications, "_hint_diagnosis", lambda broker: rung.append(1))
    attempt = place(job, [], node=make_node(), state="RUNNING")
    with django_capture_on_commit_callbacks(execute=True):
        append_logs(attempt.node_id, [frame(attempt, 0, b"")])
    assert rung == [1]
    Job.objects.update(diagnosing_at=None)
    with django_capture_on_commit_callbacks(execute=True):
        append_logs(attempt.node_id, [frame(attempt, 0, b"", "stderr")])
    assert rung == [1]


@pytest.mark.django_db
class TestWholeLife:
    """From what a node reports to what becomes of the job."""

    @pytest.fixture
    def run(self):
        alice = make_user()
        vc = make_vc(quotas={"A100": 8}, members=[alice])
        make_node("gpu-1", gpus=4)
        make_node("gpu-2", gpus=4)

        def fails(log: bytes, **changes) -> Job:
            job = placed(alice, vc, **changes)
            attempts = attempts_of(job)
            report(attempts, "ready", "running")
            for attempt in attempts:
                write(attempt, "stderr", log)
                report(attempt, "exited", exit_code=1)
                ends = [(0, "stdout"), (len(log), "stderr")]
                append_logs(attempt.node_id, [frame(attempt, n, b"", s) for n, s in ends])
            diagnose_due()
            report(attempts, "released")
            job.refresh_from_db()
            return job

        return fails

    def test_what_would_fail_again_is_not_tried_again(self, run):
        job = run(OOM, retries=3)
        assert (job.state, job.retries_used, job.free_retries) == ("FAILED", 0, 0)
        assert job.diagnosis["name"] == "ContainerCudaOOMKilled"
        assert JobAttempt.objects.get(job=job).diagnosis == job.diagnosis

    def test_what_no_one_knows_is_tried_as_often_as_asked(self, run):
        job = run(b"step 1\n", retries=3)
        assert (job.state, job.retries_used, job.free_retries) == ("WAITING", 1, 0)
        assert job.diagnosis["category"] == "No signature"

    def test_a_download_is_tried_again_later_and_free(self, run):
        job = run(b"urllib.error.HTTPError: HTTP Error 503: Service Unavailable\n")
        assert (job.state, job.retries_used, job.free_retries) == ("WAITING", 0, 1)
        assert job.not_before > timezone.now() + timedelta(seconds=30)

    def test_a_broken_node_is_left_for_another_and_counted(self, run):
        job = run(b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
        assert (job.state, job.retries_used, job.free_retries) == ("WAITING", 0, 1)
        fault = NodeFault.objects.get()
        assert list(job.avoid_nodes) == [fault.node.name]
        assert fault.name == "ContainerCudaUncorrectableECCError"

    def test_a_gang_is_informed_of_its_first_failure(self, run):
        job = run(OOM, instances=2)
        assert (job.state, job.diagnosis["task"]) == ("FAILED", "worker-0")
