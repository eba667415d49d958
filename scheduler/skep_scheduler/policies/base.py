"""The contract of policies: which gang comes first within one domain.

A domain is one virtual cluster (its guaranteed gangs), or the idle domain (all opportunistic gangs
of the cluster). A policy decides who comes first and what happens behind a gang that finds no
place. It never names cells: where a gang goes is decided by `placement`, the same for all policies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, ClassVar, Protocol

from skep_scheduler.model import Gang, Options

Key = tuple[Any, ...]
Rank = tuple[Any, ...]


class BackfillMode(StrEnum):
    """What happens behind a gang that finds no place."""

    SKIP = "skip"  # the next one may start
    BLOCK = "block"  # no gang behind it starts on what it could use
    RESERVE = "reserve"  # its earliest start is reserved, and whoever does not delay it may start


class Keep(StrEnum):
    """What running gangs of the domain may lose to waiting ones of the same priority."""

    FIRM = "firm"  # nothing: only a higher priority preempts
    DISPLACE = "displace"  # their places, where they come later in the order of the policy


class Knows(Enum):
    """What a policy must know about a gang to order it."""

    DURATION = "duration"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Needs:
    """`otherwise`: one sentence on what happens to a gang that lacks what the policy must know."""

    must_know: frozenset[Knows] = frozenset()
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """What a policy sees of its domain: the moment, in seconds since the epoch, and the limits of
    the queue. `vc` is "" in the idle domain."""

    vc: str
    now: float
    options: Options


@dataclass(frozen=True, slots=True)
class Decision:
    """The order of a domain at one moment.

    rank: the least goes first; no two gangs have the same one
    order: the same, but for starvation, among gangs of one kind; it never changes while they wait
    outranks: whether the first gang may delay a start that is reserved for the second one
    label: how a reason names the order, such as "first in, first out"; "" for the default
    wake_at: decide again then, even if nothing happens
    """

    rank: Callable[[Gang], Rank]
    order: Callable[[Gang], Rank]
    backfill_mode: BackfillMode
    outranks: Callable[[Gang, Gang], bool]
    keep: Keep = Keep.FIRM
    label: str = ""
    wake_at: float | None = None


class Policy(Protocol):
    """Decides the order of a domain."""

    def decide(self, view: View) -> Decision: ...


class JobFacts(Protocol):
    """What an order policy may read of a job: a live gang has it, and so has a simulated job.

    expected_s: how long it probably runs in all, at the size that it asks for
    left_s: the part of it that it has not run yet
    attained_gpu_s: the GPU-seconds that it was served so far
    """

    @property
    def id(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def submitted_at(self) -> float: ...
    @property
    def gpus(self) -> int: ...
    @property
    def expected_s(self) -> float | None: ...
    @property
    def left_s(self) -> float | None: ...
    @property
    def attained_gpu_s(self) -> float: ...


class DeadlineFacts(JobFacts, Protocol):
    """What a policy of deadlines reads besides. `deadline_at` is in seconds since the epoch."""

    @property
    def deadline_at(self) -> float | None: ...


class OrderPolicy(Protocol):
    """A policy that is one key per gang. `ordered.Ordered` makes decisions of it.

    Its class is a frozen dataclass; the fields are its parameters, made with `parameter`. Its
    docstring describes it to the admin who chooses it.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    needs: ClassVar[Needs]
    keep: ClassVar[Keep]

    @property
    def backfill_mode(self) -> BackfillMode: ...

    def key(self, gang: JobFacts, now: float) -> Key:
        """Return the key of a waiting gang: the least goes first. It starts with the priority,
        since a policy only orders gangs of one priority. Equal keys are ordered by submission.

        Time may only change the order of gangs of different demands: of two that ask for the same,
        one stays before the other."""
        ...


def parameter(
    default: Any,
    description: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    option: str = "",
) -> Any:
    """Declare a parameter of a policy. `option` names the field of `Options` that gives the default
    where the parameter is not set."""
    metadata = {
        "description": description,
        "minimum": minimum,
        "maximum": maximum,
        "choices": choices,
        "option": option,
    }
    return field(default=default, metadata=metadata)
