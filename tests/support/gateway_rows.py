"""Rows for tests of the gateway and of telemetry: an attempt on a node, ready to write logs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_agent.frames import LogFrame
from skep_platform.cluster.models import Node
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import AttemptState, JobState
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.services import append_logs


def running_attempt(node: Node | None = None, *, gpus: int = 1, **fields: object) -> TaskAttempt:
    """A RUNNING one-task job's attempt on the node (on a new one by default)."""
    node = node or make_node()
    owner = make_user()
    job = make_job(
        make_vc(quotas={"A100": 8}, members=[owner]),
        owner,
        gpus=gpus,
        state=JobState.RUNNING,
        attempt=1,
    )
    free = list(node.devices.filter(leases=None).order_by("index")[:gpus])
    return place(job, free, node=node, state=AttemptState.RUNNING, **fields)


def frame(attempt: TaskAttempt, offset: int, data: bytes, stream: str = "stdout") -> LogFrame:
    return LogFrame(str(attempt.pk), stream, offset, 1_790_000_000.0, data)  # type: ignore[arg-type]


def write(attempt: TaskAttempt, data: bytes, stream: str = "stdout") -> None:
    """Append to its log, as one chunk."""
    last = LogChunk.objects.filter(attempt=attempt, stream=stream).order_by("-offset").first()
    offset = last.offset + last.size if last else 0
    append_logs(attempt.node_id, [frame(attempt, offset, data, stream)])


def frames(attempt: TaskAttempt, data: bytes, cuts: Iterable[int] = ()) -> list[LogFrame]:
    """`data` as frames that begin at the cuts, and the end marker."""
    borders = sorted({0, *cuts, len(data)})
    pieces = [frame(attempt, a, data[a:b]) for a, b in pairwise(borders)]
    return [*pieces, frame(attempt, len(data), b"")]
