"""What a scheduler answers: placements, preemptions, downgrades, cancels; reasons for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    """`cell_type` is the type of the preassigned cell it uses, "" for an opportunistic task;
    `gpu_model` is None if, and only if, the task has no GPU."""

    role: str
    index: int  # within the role
    node: str
    gpu_uuids: tuple[str, ...] = ()
    gpu_model: str | None = None
    cell_type: str = ""


@dataclass(frozen=True, slots=True)
class Placement:
    """All tasks of a gang; of an incremental one those that are placed now. To be stored (as plain
    data) with a nomination, and given back by `ClusterState.set_nominated`."""

    gang: str
    tasks: tuple[TaskPlacement, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task.node for task in self.tasks))


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that is to be preempted with all its tasks. `gpus`: all that it loses; `overlap`:
    those that are wanted; `cause`: "cells", or "cpu" / "memory" that it has beyond its GPUs'
    shares; `standing`: where it stands under the policy that displaces it, for one of the same
    priority, see `explain.standings`."""

    gang: str
    name: str
    vc: str
    owner: str
    priority: int  # as it counts now: -1 for a downgraded one
    gpus: int
    overlap: tuple[str, ...]
    nodes: tuple[str, ...]
    cause: str = "cells"
    standing: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preemption:
    """The gang has `placement` reserved as soon as this is stored; it starts there when `victims`
    (to be asked now) and those in `leaving` (asked before, ids) are gone."""

    gang: str
    placement: Placement
    victims: tuple[Victim, ...]
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resize:
    """A running gang that is to be preempted so that it starts again with another number of tasks
    of its elastic role; 0: it waits, as its policy gives its places to others. `gpus_before`,
    `gpus`: GPUs of all its tasks. `policy`: the label of the policy."""

    gang: str
    tasks_before: int
    tasks: int
    gpus_before: int
    gpus: int
    policy: str


@dataclass(frozen=True, slots=True)
class Reason:
    """`code` is stable, `message` one sentence for the owner (without a clock: "in about 25 min"),
    `details` the numbers behind it; times in them are seconds since the epoch."""

    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now. It states how things should be, not what changed: what was not carried out
    is part of the next plan again.

    placements: gangs to start (tasks of incremental ones); a gang whose reservation is cleared is
        placed where it was reserved
    preemptions: reservations to store, with the victims to ask
    resizes: running gangs that leave so that they start again with another number of tasks
    downgrades: running guaranteed gangs that are opportunistic from now on
    restored: downgraded gangs whose VC accounts for them again
    cancels: gangs that lose their reservation (outranked, or its place went bad); they wait again
    reasons: for each gang that goes on waiting, in the order of the queue
    next_at: when the plan may change although no fact does (seconds since the epoch), such as the
        end of a retry backoff; None: never
    warnings: what is wrong with the policy of a virtual cluster, by its name, as a sentence
    """

    placements: tuple[Placement, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    downgrades: Mapping[str, Reason] = field(default_factory=dict)
    restored: tuple[str, ...] = ()
    cancels: Mapping[str, Reason] = field(default_factory=dict)
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    next_at: float | None = None
    warnings: Mapping[str, str] = field(default_factory=dict)
    resizes: tuple[Resize, ...] = ()
