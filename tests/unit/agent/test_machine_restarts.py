"""A container that was running when its machine went down has no exit code of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from skep_agent.isolation.create import NodeFacts
from skep_agent.runtimes.docker import DockerRuntime

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=36500)  # before any machine came up


def at(time: datetime) -> str:
    """As the engine writes it, with nanoseconds."""
    return f"{time:%Y-%m-%dT%H:%M:%S}.123456789Z"


@pytest.mark.parametrize(
    ("started", "finished", "exit_code", "reason"),
    [
        (LONG_AGO, NOW, 255, "node_lost"),  # the engine found it dead when it began
        (LONG_AGO, NOW, 1, ""),
        (NOW, NOW, 255, ""),  # its own exit code
        (LONG_AGO, LONG_AGO, 255, ""),  # it had ended before
    ],
)
async def test_a_restart_of_the_machine_is_no_failure_of_the_task(
    started: datetime, finished: datetime, exit_code: int, reason: str
) -> None:
    runtime = DockerRuntime(NodeFacts("cluster", "n1"))
    state = {"StartedAt": at(started), "FinishedAt": at(finished), "ExitCode": exit_code}
    found = {"State": {"Status": "exited", **state}, "HostConfig": {"Memory": 0}}
    end = runtime._exit_of("c1", found)
    await runtime.close()
    assert end is not None
    assert (end.exit_code, end.error_code) == (exit_code, reason)
