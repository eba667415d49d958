"""Finding J11: two tasks on two agents that write to stdout and stderr in turn, beside the engine's
own record of it."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import docker
import httpx
import pytest
from docker.models.containers import Container
from tests.support.stack import Stack
from tests.support.stack_jobs import gang, reach, submit, tasks, until

from skep_client.follow import follow
from skep_client.loglines import Line, Lines
from skep_client.models import LogChunk

pytestmark = [pytest.mark.stack, pytest.mark.docker]

TURNS = 150
# Both begin when they are asked to, and stay until the engine's record of them was read.
WRITE = (
    "until [ -e /tmp/begin ]; do sleep 0.1; done; "
    f"i=0; while [ $i -lt {TURNS} ]; do echo out $i; echo err $i >&2; i=$((i + 1));"
    " [ $((i % 10)) != 0 ] || sleep 0.2; done; until [ -e /tmp/over ]; do sleep 0.1; done"
)
RECORD = re.compile(r"^(\S+)Z (.*)$")


def test_finding_j11_lines_have_the_engines_times_and_order(
    skep: Stack, api: httpx.Client, image: str
) -> None:
    job_id = submit(api, gang(image, WRITE, tasks=2, gpus=8))
    reach(api, job_id, {"RUNNING"})
    placed = [task["attempt"] for task in tasks(api, job_id)]
    assert len({attempt["node"] for attempt in placed}) == 2
    containers = [until(lambda a=attempt: container_of(a["id"])) for attempt in placed]
    for container in containers:
        container.exec_run(["touch", "/tmp/begin"])
    records = [until(lambda c=container: engine_log(c)) for container in containers]
    for container in containers:
        container.exec_run(["touch", "/tmp/over"])
    reach(api, job_id, {"SUCCEEDED"})
    until(lambda: api.get(f"/jobs/{job_id}/logs", params={"cursor": 2**53}).json()["complete"])

    found = api.get(f"/jobs/{job_id}/logs/download", params={"as": "jsonl"})
    lines = [line_of(fields) for fields in map(json.loads, found.text.splitlines())]
    assert len(lines) == 4 * TURNS
    check(lines, records)

    with skep.client() as client:
        joined, followed = Lines(), []
        for news in follow(client, job_id):
            if isinstance(news, LogChunk):
                followed += joined.feed(news)
    check(followed, records)


def container_of(attempt_id: str) -> Container | None:
    """The container of an attempt, once it runs."""
    found = docker.from_env().containers.list(filters={"label": f"skep.attempt={attempt_id}"})
    return found[0] if found else None


def engine_log(container: Container) -> list[tuple[datetime, str]] | None:
    """What the engine recorded, once it is all there."""
    text = container.logs(timestamps=True).decode()
    records = [RECORD.match(line) for line in text.splitlines()]
    lines = [(datetime.fromisoformat(m[1][:26] + "+00:00"), m[2]) for m in records if m]
    return lines if len(lines) == 2 * TURNS else None


def check(lines: list[Line], records: list[list[tuple[datetime, str]]]) -> None:
    """Each task's lines in the engine's order with the engine's times, all of them by time."""
    for rank, record in enumerate(records):
        mine = [line for line in lines if line.rank == rank]
        assert [line.text for line in mine] == [text for _, text in record]
        for line, (at, _) in zip(mine, record, strict=True):
            assert abs((line.at - at).total_seconds()) < 0.01
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    assert len({line.rank for line in lines[: TURNS * 2]}) == 2, "they are mixed"


def line_of(fields: dict[str, Any]) -> Line:
    return Line(**fields | {"at": datetime.fromisoformat(fields["at"])})
