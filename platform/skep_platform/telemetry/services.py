"""All writes of telemetry: log bytes, live values and rollups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from skep_agent.frames import LogFrame
from skep_agent.protocol import AttemptSpec, LogAck, LogPosition, Samples
from skep_platform.core import failures
from skep_platform.core.processes import NodeClocks
from skep_platform.telemetry import appending, rollups
from skep_platform.telemetry.rollups import ClusterUse

_use = ClusterUse()
_clocks = NodeClocks()


def append_logs(node_id: UUID, frames: Sequence[LogFrame]) -> list[LogAck]:
    """Store log frames of a node, each byte once. An acknowledgement per stream says how many
    bytes are stored without a gap; a frame past a gap is not stored, and the agent sends again
    from there."""
    return appending.append({node_id: frames})[node_id]


def append_logs_of_nodes(
    batches: Mapping[UUID, Sequence[LogFrame]],
) -> dict[UUID, list[LogAck]]:
    """Store the log frames of many nodes with the statements of one; see `append_logs`."""
    return appending.append(batches)


def log_positions(node_id: UUID, attempt_ids: Iterable[str]) -> list[LogPosition]:
    """From where the node shall go on sending the output of these attempts; attempts that are not
    on the node are left out."""
    return log_positions_of_nodes({node_id: attempt_ids})[node_id]


def log_positions_of_nodes(asked: Mapping[UUID, Iterable[str]]) -> dict[UUID, list[LogPosition]]:
    """Return what `log_positions` does, for many nodes by one query."""
    return appending.positions(asked)


def node_connected(node_id: UUID) -> None:
    """Begin to take samples of a node into account; `node_disconnected` ends it."""
    _use.connect(node_id)


def node_disconnected(node_id: UUID) -> None:
    """Forget a node whose session ended, unless another one of it is open."""
    _use.disconnect(node_id)


def hold(node_id: UUID, attempts: Iterable[AttemptSpec], kept: Collection[str] = ()) -> None:
    """Count the samples of the node's GPUs and containers for these attempts from now on, and for
    those of `kept` as before."""
    _use.hold(node_id, {a.attempt_id: a.gpu_uuids for a in attempts}, kept)


def store_samples(node_id: UUID, samples: Samples) -> None:
    """Take a node's samples into account, in memory: `flush_live` and `flush_rollups` store what
    came together. A killed server loses the samples of a few seconds, never a query per sample."""
    _use.add(node_id, samples)
    _clocks.saw(node_id, samples.at)


def flush_live() -> None:
    """Write the newest values of all nodes to Valkey, in one round trip, and by how much their
    clocks are ahead where that has changed."""
    rollups.store_live(_use.take_live())
    _clocks.flush()


def flush_rollups() -> None:
    """Add all samples since the last flush to the rollups in the database: two statements."""
    taken = _use.take_buckets()
    try:
        rollups.store_rollups(taken)
    except failures.DATABASE_ERRORS:
        _use.put_back(taken)
        raise
