"""Two of each part, of which every one is replaced under load, and then the scheduler that leads is
killed: no request fails, no byte of a log is lost, no task stops, and the other scheduler leads
within seconds. What a person sends to one web server reaches a task whose agent is connected to
another one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.support.gateway_server import wait_until
from tests.support.gateway_streams import Person, token_of
from tests.support.jobs_world import attempts_of, job_file, state_of
from tests.support.platform_factories import make_user, make_vc
from tests.support.replicas import Replicas, Visitors, mock_agent, replicas

from skep_agent.frames import Channel
from skep_platform.cluster.models import Node
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.tenancy.limits import set_limit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]
LONG = "mock run_for=3600 log_lines=720000"


def submit_to(client: httpx.Client, vc: Any, command: str, headers: dict[str, str]) -> Any:
    return client.post("/api/v1/jobs", json=job_file(vc, commands=[command]), headers=headers)


def running(job_id: str) -> TaskAttempt:
    wait_until(lambda: state_of_id(job_id) == "RUNNING", "the job runs", 240)
    [attempt] = attempts_of(Job.objects.get(pk=job_id))
    return attempt


def state_of_id(job_id: str) -> str:
    return state_of(Job(pk=job_id))


def echo(parts: Replicas, attempt: TaskAttempt, user: Any) -> None:
    """Run a command through each web server, while the agent dials whichever it gets."""
    for server in parts.servers["web"]:
        with Person(server.port, attempt.pk, user) as person:
            person.ask("echo", "hello")
            assert person.receive() == (Channel.OUTPUT, b"hello\n")


def test_every_process_is_replaced_under_load_and_nothing_is_lost(transactional_db):
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 8}, members=[alice])
    set_limit(None, vc, "submits_per_minute", 100_000)
    headers = {"Authorization": f"Bearer {token_of(alice)}"}
    with replicas() as parts, mock_agent(parts.web.url):
        wait_until(lambda: Node.objects.filter(state="ONLINE").exists(), "the node is there", 240)
        with parts.client() as client:
            answer = submit_to(client, vc, LONG, headers)
            assert answer.status_code == 201, answer.text
            job_id = answer.json()["id"]
        attempt = running(job_id)
        echo(parts, attempt, alice)

        logs = f"/api/v1/attempts/{attempt.pk}/logs/stdout"
        requests = {
            "page": lambda client: client.get("/api/v1/jobs", headers=headers),
            "log": lambda client: client.get(logs, headers=headers),
            "submit": lambda client: submit_to(client, vc, "mock run_for=0.1", headers),
            "gateway": lambda client: client.get(f"{parts.gateway.url}/healthz"),
        }
        with Visitors(requests, parts.web.url) as visitors:
            parts.restart_all()
            before = dict(visitors.answered)
            parts.kill_leading_scheduler()
            wait_until(lambda: all_more(visitors.answered, before), "all requests go on", 240)
        assert visitors.failed == []

        echo(parts, attempt, alice)
        assert running(job_id).pk == attempt.pk  # the same attempt of the same job attempt
        seen = last_line(parts, logs, headers)
        wait_until(lambda: last_line(parts, logs, headers) > seen, "the log goes on", 240)
        ended = submitted_since(job_id)
        wait_until(lambda: all(state_of(job) == "SUCCEEDED" for job in ended), "all end", 240)
        assert {job.attempt for job in Job.objects.all()} == {1}
        with parts.client() as client:
            assert client.post(f"/api/v1/jobs/{job_id}/stop", headers=headers).is_success
        wait_until(lambda: state_of_id(job_id) == "STOPPED", "it stops", 240)
        assert_unbroken(whole_log(parts, logs, headers))


def all_more(answered: dict[str, int], before: dict[str, int]) -> bool:
    return all(answered[name] > before[name] for name in before)


def submitted_since(job_id: str) -> list[Job]:
    return list(Job.objects.exclude(pk=job_id))


def whole_log(parts: Replicas, path: str, headers: dict[str, str]) -> bytes:
    with parts.client(headers) as client:
        answer = client.get(path, params={"raw": "true"})
        assert answer.is_success, answer.text
        return answer.content


def last_line(parts: Replicas, path: str, headers: dict[str, str]) -> int:
    return whole_log(parts, path, headers).count(b"\n")


def assert_unbroken(log: bytes) -> None:
    lines = log.decode().splitlines()
    assert lines == [f"stdout line {number}" for number in range(len(lines))]
    assert log.endswith(b"\n")
