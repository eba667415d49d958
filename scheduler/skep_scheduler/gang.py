"""The shape of a gang: what it needs, whoever it belongs to; and its kind: shape, VC and whether
it needs quota.

Gangs of one kind are refused together: when one does not fit, a tick tries no other. Members with
equal needs are one `Demand`; the names of task roles come back when a packing is turned into a
placement.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from skep_scheduler.resources import NOTHING, Resources
from skep_scheduler.state import Gang, Member


class MemberShape(NamedTuple):
    need: Resources  # of each task
    gpu_model: str | None  # None: no GPUs, or any one model
    tasks: int

    @property
    def open(self) -> bool:
        """Its GPU model is still to be chosen."""
        return self.need.gpus > 0 and self.gpu_model is None


Shape = tuple[MemberShape, ...]


class Kind(NamedTuple):
    vc: str
    opportunistic: bool
    shape: Shape


class Demand(NamedTuple):
    """`tasks` equal tasks, each in need of `need`, on GPUs of `model` (None: no GPUs)."""

    model: str | None
    need: Resources
    tasks: int


Demands = tuple[Demand, ...]


def member_shape(member: Member) -> MemberShape:
    m = member
    return _shape(m.gpus, m.cpu_millis, m.memory_mb, m.gpu_model if m.gpus else None, m.count)


@lru_cache(maxsize=65_536)
def _shape(
    gpus: int, cpu_millis: int, memory_mb: int, gpu_model: str | None, tasks: int
) -> MemberShape:
    """One object for equal members: a queue of 50,000 gangs has few shapes."""
    return MemberShape(Resources(gpus, cpu_millis, memory_mb), gpu_model, tasks)


def kind_of(gang: Gang) -> Kind:
    return Kind(gang.vc, gang.opportunistic, tuple([member_shape(m) for m in gang.members]))


def is_open(shape: Shape) -> bool:
    """Whether one GPU model is to be chosen for the members that name none."""
    return any(member.open for member in shape)


@lru_cache(maxsize=65_536)
def demands_of(shape: Shape, model: str | None) -> Demands:
    """What the gang asks for if its open members get `model`: equal needs joined, largest first."""
    counts: dict[tuple[str | None, Resources], int] = {}
    for member in shape:
        key = (model if member.open else member.gpu_model, member.need)
        counts[key] = counts.get(key, 0) + member.tasks
    joined = [Demand(m, need, count) for (m, need), count in counts.items() if count]
    return tuple(sorted(joined, key=lambda d: (d.need, d.model or ""), reverse=True))


@lru_cache(maxsize=65_536)
def gpus_by_model(demands: Demands) -> tuple[tuple[str, int], ...]:
    """GPUs of the whole gang, per model in name order."""
    totals: dict[str, int] = {}
    for demand in demands:
        if demand.model is not None:
            totals[demand.model] = totals.get(demand.model, 0) + demand.tasks * demand.need.gpus
    return tuple(sorted(totals.items()))


def total_of(demands: Demands) -> Resources:
    """The whole gang as one amount (meaningful on one node, for at most one GPU model)."""
    total = NOTHING
    for demand in demands:
        total = total.plus(demand.need.times(demand.tasks))
    return total
