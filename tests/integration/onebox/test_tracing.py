"""A job of a whole Skep, followed by its trace and by the lines of the logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.stack import Stack, eventually, stack
from tests.support.trace_collector import TraceCollector

pytestmark = [pytest.mark.stack, pytest.mark.long]

STEPS = {"job.submit", "job.wait", "attempt.send", "attempt.pull", "attempt.create"}
STEPS |= {"attempt.start"}
JOB_FILE = """
protocolVersion: 2
name: traced
type: job
secrets:
  password: correct-horse-battery
prerequisites:
  - {protocolVersion: 2, name: image, type: dockerimage, uri: unused}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 1}
    commands: ["echo <% $secrets.password %>"]
"""
ATTEMPTS = ("attempt_sent", "attempt_state")
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def collector() -> Iterator[TraceCollector]:
    with TraceCollector() as listening:
        yield listening


@pytest.fixture(scope="module")
def box(collector: TraceCollector) -> Iterator[Stack]:
    soon = {"OTEL_BSP_SCHEDULE_DELAY": "100"}  # milliseconds until spans are sent
    options = ("--nodes", "1", "--gpus", "4", "--runtime", "mock")
    with stack(*options, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **soon) as running:
        yield running


@pytest.fixture(scope="module")
def job_id(box: Stack) -> str:
    with box.api() as api:
        answer = api.post(
            "/jobs",
            content=JOB_FILE,
            headers={
                "Content-Type": "text/yaml",
                "traceparent": CALLER,
                "X-Request-Id": "of-the-test",
            },
        )
        found = answer.raise_for_status().json()["id"]
    box.wait_for_job(found, lambda job: job.state in ("RUNNING", "SUCCEEDED"))
    return str(found)


def test_one_trace_leads_from_the_request_to_the_start_of_the_container(
    box: Stack, collector: TraceCollector, job_id: str
):
    eventually(lambda: collector.about(job_id).keys() >= STEPS, 30, lambda: str(collector.spans))
    spans = collector.about(job_id)
    request = next(s for s in collector.spans if s.id == spans["job.submit"].parent)

    assert {s.trace for s in [request, *spans.values()]} == {CALLER.split("-")[1]}
    assert request.parent == CALLER.split("-")[2]
    assert (request.service, request.name) == ("skep-web", "POST /api/v1/jobs")
    assert request.attributes["http.response.status_code"] == "201"
    assert request.attributes["skep.request.id"] == "of-the-test"
    submit, send = spans["job.submit"], spans["attempt.send"]
    for name in ("job.wait", "attempt.send"):
        assert spans[name].parent == submit.id, name
    for name in ("attempt.pull", "attempt.create", "attempt.start"):
        assert (spans[name].parent, spans[name].service) == (send.id, "skep-agent"), name
    assert spans["job.wait"].service == "skep-worker"
    assert send.service == "skep-gateway"
    assert spans["job.wait"].attributes["skep.policy"] == "default"
    assert spans["job.wait"].attributes["skep.nodes"] == send.attributes["skep.node.name"]


def test_the_spans_follow_each_other_and_the_wait_begins_with_the_job(
    box: Stack, collector: TraceCollector, job_id: str
):
    eventually(lambda: collector.about(job_id).keys() >= STEPS, 30)
    spans = collector.about(job_id)
    wait, send, start = spans["job.wait"], spans["attempt.send"], spans["attempt.start"]
    assert wait.start < wait.end
    assert wait.start < send.start < send.end < start.start <= start.end
    assert spans["attempt.pull"].end <= spans["attempt.create"].start
    assert not any(span.failed for span in spans.values())


def test_a_stop_and_the_removal_of_the_container_are_in_the_trace(
    box: Stack, collector: TraceCollector
):
    with box.api() as api:
        body = JOB_FILE.replace("name: traced", "name: stopped")
        body = body.replace("echo <% $secrets.password %>", "mock run_for=600")
        answer = api.post("/jobs", content=body, headers={"Content-Type": "text/yaml"})
        found = str(answer.raise_for_status().json()["id"])
        box.wait_for_job(found, lambda job: job.state == "RUNNING")
        api.post(f"/jobs/{found}/stop").raise_for_status()
    wanted = STEPS | {"attempt.stop", "attempt.remove"}
    eventually(lambda: collector.about(found).keys() >= wanted, 30, lambda: str(collector.spans))
    spans = collector.about(found)
    stop, remove = spans["attempt.stop"], spans["attempt.remove"]
    assert stop.parent == remove.parent == spans["attempt.send"].id
    assert spans["attempt.start"].end < stop.start <= remove.end


def test_nothing_of_the_job_file_is_in_a_trace(box: Stack, collector: TraceCollector, job_id: str):
    eventually(lambda: collector.about(job_id).keys() >= STEPS, 30)
    sent = b"".join(collector.bodies)
    assert job_id.encode() in sent
    for hidden in ("correct-horse-battery", "echo", box.token):
        assert hidden.encode() not in sent


def test_grep_finds_each_step_of_a_job_in_the_logs(box: Stack, job_id: str):
    def steps() -> set[tuple[str, str]]:
        return {(part, line["event"]) for part, line in _lines_of(box.home.log, job_id)}

    wanted = {
        ("web", "job_submitted"),
        ("worker-scheduler", "job_placed"),
        ("gateway", "attempt_sent"),
        ("gateway", "attempt_state"),
        ("agent", "operation_ended"),
    }
    eventually(lambda: steps() >= wanted, 30, lambda: str(steps()))
    lines = [line for _, line in _lines_of(box.home.log, job_id)]
    submitted = next(line for line in lines if line["event"] == "job_submitted")
    assert submitted["request_id"] == "of-the-test"
    assert submitted["trace_id"] == CALLER.split("-")[1]
    of_server = [line for line in lines if line["event"] in ("job_placed", *ATTEMPTS)]
    assert {line["request_id"] for line in of_server} == {"of-the-test"}
    assert all(line["node_id"] for line in lines if line["event"].startswith("attempt_"))
    operations = [line["operation"] for line in lines if line["event"] == "operation_ended"]
    assert operations[:3] == ["pull", "create", "start"]


def _lines_of(folder: Path, job_id: str) -> list[tuple[str, dict]]:
    """Return the lines that name the job, each with the part that wrote it."""
    found = []
    for file in sorted(folder.glob("*.log")):
        part = "agent" if file.name.startswith("agent-") else file.name.removesuffix(".log")
        for line in file.read_text().splitlines():
            if job_id in line and line.startswith("{"):
                found.append((part, json.loads(line)))
    return found
