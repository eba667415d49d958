"""What a scheduler answers: placements, and for every gang left waiting a reason with numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    role: str
    index: int  # within the role
    node_id: str
    gpu_uuids: tuple[str, ...]
    gpu_model: str | None


@dataclass(frozen=True, slots=True)
class Placement:
    gang_id: str
    tasks: tuple[TaskPlacement, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a gang waits. `code` is stable, `message` one sentence for its owner, `details` the
    numbers behind it (needs, has, who is ahead)."""

    code: str
    message: str
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    placements: tuple[Placement, ...]
    reasons: dict[str, Reason]  # gang id -> reason, for each waiting gang not placed
