"""What a node shall run, as one frame."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from skep_agent.protocol import AttemptSpec, Desired
from skep_platform.cluster.models import Node
from skep_platform.core.errors import Conflict
from skep_platform.jobs.containers.desired import desired_state, note_told
from skep_platform.jobs.life.reporting import refuse


@dataclass(frozen=True, slots=True)
class DesiredState:
    revision: int
    attempts: list[AttemptSpec]
    frame: str


def build(node_id: UUID, session_epoch: int, known_revision: int | None) -> DesiredState | None:
    """The complete desired state, or None when the agent has been told this revision already.
    Raises Conflict `session_fenced` when the session is over.

    The revision is read before the attempts: they may be newer than it says, and are then sent
    once more, but never older."""
    mine = Node.objects.filter(pk=node_id, session_epoch=session_epoch, connected=True)
    revision = mine.values_list("desired_revision", flat=True).first()
    if revision is None:
        raise Conflict("This session of the node is over.", code="session_fenced")
    if revision == known_revision:
        return None
    state = desired_state(node_id)
    if state.refused:
        refuse(state.refused)
    note_told(node_id, session_epoch, state.to_start)
    told = Desired(revision=revision, attempts=state.attempts, shared=state.shared)
    return DesiredState(revision, state.attempts, told.model_dump_json())
