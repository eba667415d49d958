"""Job files for benchmarks, and waiting for jobs over REST."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import httpx
import psycopg
from tests.support.stack import Stack

LOOK_S = 0.005


def job(name: str, command: str, *, tasks: int = 1, gpus: int = 1, image: str = "none") -> dict:
    return {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": image}],
        "taskRoles": {
            "worker": {
                "instances": tasks,
                "dockerImage": "image",
                "resourcePerInstance": {"gpu": gpus, "cpu": 1, "memoryMB": 64},
                "commands": [command],
            }
        },
    }


def count(api: httpx.Client, state: str) -> int:
    """Count the jobs in this state, from the cluster's summary."""
    return int(api.get("/cluster").raise_for_status().json()["jobs"].get(state, 0))


def wait_for(api: httpx.Client, job_id: str, states: set[str], within_s: float = 60) -> dict:
    """Poll one job. Raises TimeoutError with what it says of itself."""
    deadline = time.monotonic() + within_s
    while True:
        found = api.get(f"/jobs/{job_id}").raise_for_status().json()
        if found["state"] in states:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{found['name']} is {found['state']}: {found['wait_reason']}")
        time.sleep(0.02)


class Witness:
    """Sees in the database what happened, with one small query for each look.

    A look at a job by REST costs the server 12 ms of CPU: a benchmark that looks all the time on
    two cores measures its own looks, too.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def wait(self, sql: LiteralString, wanted: Any, *parameters: Any, within_s: float = 60) -> None:
        """Wait until a query has this one value. Raises TimeoutError."""
        deadline = time.monotonic() + within_s
        while (found := self._value(sql, parameters)) != wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found} and not {wanted} after {within_s:g} s: {sql}")
            time.sleep(LOOK_S)

    def _value(self, sql: LiteralString, parameters: tuple[Any, ...]) -> Any:
        row = self._connection.execute(sql, parameters).fetchone()
        return row and row[0]


@contextmanager
def witness(skep: Stack) -> Iterator[Witness]:
    with psycopg.connect(skep.database_url, autocommit=True) as connection:
        yield Witness(connection)
