"""The contract of policies: which gang comes first within one domain.

A policy is written as one of five: `OrderPolicy` is a key per gang, `SharePolicy` a measure of
what each tenant holds, `RoundPolicy` a share of the time per gang, `RankedPolicy` an order of all
gangs as of a moment, `elastic.ElasticPolicy` a number of GPUs per gang. `ordered`, `shares`,
`rounds`, `ranked` and `sized` make decisions of them. The tenants of a virtual cluster are its
users.

A domain is one virtual cluster (its guaranteed gangs), or the idle domain (all opportunistic gangs
of the cluster). A policy decides who comes first and what happens behind a gang that finds no
place. It never names cells: where a gang goes is decided by `placement`, the same for all policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

from skep_scheduler.model import Allocation, Gang, Options

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
    EXACT = "exact"  # their places, where a round chose others: see `Decision.yielding`


class Knows(Enum):
    """What a policy knows about a gang to decide on it.

    duration, deadline: of the gang; history: earlier gangs that were like it
    speeds: how fast it is on each GPU model
    speedup: how fast it is with each number of tasks, of an elastic one
    restart: what it costs to leave and to start again
    """

    DURATION = "duration"
    DEADLINE = "deadline"
    HISTORY = "history"
    SPEEDS = "speeds"
    SPEEDUP = "speedup"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a policy asks of gangs.

    otherwise: one sentence on what happens to a gang that lacks what the policy must know
    assumes: what it also decides by, with one sentence on what it takes for true where it is not
        known of a gang
    """

    must_know: frozenset[Knows] = frozenset()
    otherwise: str = ""
    assumes: Mapping[Knows, str] = field(default_factory=dict)


@runtime_checkable
class VariableNeeds(Protocol):
    """A policy that needs more or less by its parameters than its class says."""

    def needs_as_chosen(self) -> Needs: ...


Standing = Mapping[str, Any]  # `policy`, and the numbers of its sentence
Amounts = Mapping[str, float]  # by resource: a leaf type (GPUs), CPU (millicores), MEMORY (MiB)
CPU, MEMORY = "cpu", "memory"


class GangDemand(dict[str, float]):
    """What a gang asks for, and what policies read of it in every plan; it is not changed.

    gpus: the GPUs alone, by leaf type; main: of the most, by name where equal; None: no GPUs
    """

    __slots__ = ("gpus", "main")

    def __init__(self, amounts: Amounts) -> None:
        super().__init__(amounts)
        self.gpus = only_gpus(amounts)
        self.main = max(sorted(self.gpus.items()), key=lambda one: one[1], default=None)


UNKNOWN_S = 3600.0
MOST_SERVICES = 1000  # gangs that ended, of a virtual cluster
SERVICES_S = 3600.0  # seconds after which those that ended since count, too


@dataclass(frozen=True, slots=True)
class HeldAmounts:
    """What a guaranteed gang holds, or is nominated for (`placed_at` None). Gangs that leave hold
    nothing."""

    gang: Gang
    amounts: Amounts
    placed_at: float | None


class DomainFacts(Protocol):
    """The facts of a domain for policies of shares and rounds; counted when they are asked for.

    waiting: guaranteed gangs that wait for a place
    held: what each gang has that runs and does not leave, or is nominated for
    running: the guaranteed gangs that run and do not leave
    accepts_any: whether a gang names no GPU model and no cell type, so that it runs on any one
    capacity: what the virtual cluster owns, CPU and memory as the shares of its GPUs
    leaving: what each guaranteed gang still has that was asked to leave
    also: a gang that is asked about as if it waited, too
    usable_gpus: of the GPUs that the virtual cluster owns, by leaf type, those that can be given:
        healthy ones on nodes that are open
    services: the GPU-seconds of each of its last gangs that ended, as of the start of the hour; of
        a policy that `LearnsServices`
    demand: what a gang asks for; GPUs of any model count for the leaf type of which most are owned
    demand_of_steps: what an elastic gang asks for with one and with two tasks of its elastic role
    """

    def waiting(self) -> Sequence[Gang]: ...
    def held(self) -> Sequence[HeldAmounts]: ...
    def capacity(self) -> Amounts: ...
    def demand(self, gang: Gang) -> Amounts: ...
    def demand_of_steps(self, gang: Gang) -> tuple[Amounts, Amounts]: ...
    @property
    def also(self) -> Gang | None: ...
    def leaving(self) -> Sequence[HeldAmounts]: ...
    def usable_gpus(self) -> Amounts: ...
    def running(self) -> Iterable[Allocation]: ...
    def services(self) -> Sequence[float]: ...
    def accepts_any(self, gang: Gang) -> bool: ...


@dataclass(frozen=True, slots=True)
class View:
    """What a policy sees of its domain: the moment, in seconds since the epoch, and the limits of
    the queue. `vc` is "" in the idle domain, which has no `domain` facts."""

    vc: str
    now: float
    options: Options
    domain: DomainFacts | None = None


@dataclass(frozen=True, slots=True)
class WantedSize:
    """A running gang that shall have another number of tasks of its elastic role than it holds;
    0: it shall wait."""

    gang: Gang
    held: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The order of a domain at one moment.

    rank: the least goes first; no two gangs have the same one
    order: the same, but for starvation, among gangs of one kind and lane; it never changes while
        they wait
    outranks: whether the first gang may delay a start that is reserved for the second one
    label: how a reason names the order, such as "first in, first out"; "" for the default
    wake_at: decide again then, even if nothing happens
    lane_of: gangs with different values are in lanes of their own, as their order to each other
        changes; None: it does not
    note_start: to be called when a gang gets places: ranks of waiting gangs rise by that
    guards: whether gangs that starve come first and close the line; False: the policy has a bound
        of its own on how long a gang waits
    yielding: the running gangs that may be displaced by a waiting one, the first to leave first;
        None: those that come later in `order`
    leaf_of: the leaf type on which a gang that accepts any shall start this time; None: any
    standing: where a gang stands, waiting or running, with its service up to now: the numbers of
        `explain.standings`; None: the policy has no words of its own
    tasks_of: with how many tasks of its elastic role a waiting gang starts now; 0: it waits; None,
        for all gangs or for one: as it asks
    declined: why a gang is not admitted: its deadline, and the earliest that it could have (seconds
        since the epoch); None: it is
    wanted_sizes: the running gangs that shall have another size, those that shrink first
    warning: what is wrong with the policy itself, as a sentence, "" for nothing
    """

    rank: Callable[[Gang], Rank]
    order: Callable[[Gang], Rank]
    backfill_mode: BackfillMode
    outranks: Callable[[Gang, Gang], bool]
    keep: Keep = Keep.FIRM
    label: str = ""
    wake_at: float | None = None
    lane_of: Callable[[Gang], str] | None = None
    note_start: Callable[[Gang], None] | None = None
    guards: bool = True
    yielding: Callable[[Gang], Sequence[str]] | None = None
    leaf_of: Callable[[Gang], str | None] | None = None
    standing: Callable[[Gang], Standing] | None = None
    warning: Callable[[], str] | None = None
    tasks_of: Callable[[Gang], int | None] | None = None
    declined: Callable[[Gang], Mapping[str, float] | None] | None = None
    wanted_sizes: Sequence[WantedSize] = ()


class Policy(Protocol):
    """Decides the order of a domain."""

    def decide(self, view: View) -> Decision: ...


class JobFacts(Protocol):
    """What an order policy may read of a job: a live gang has it, and so has a simulated job.

    expected_s: how long it probably runs in all, at the size that it asks for
    predicted_s: the same by earlier jobs that were like it alone, or None
    left_s: the part of it that it has not run yet
    attained_gpu_s: the GPU-seconds that it was served so far
    deadline_at: when its owner needs it to be done, on the same clock as `submitted_at`
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
    def predicted_s(self) -> float | None: ...
    @property
    def left_s(self) -> float | None: ...
    @property
    def attained_gpu_s(self) -> float: ...
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


@runtime_checkable
class Thresholds(Protocol):
    """An order policy whose key changes when the attained service reaches a limit."""

    def next_limit(self, attained_gpu_s: float) -> float | None:
        """Return the next one in GPU-seconds; None: there is none."""
        ...


@runtime_checkable
class LearnsServices(Protocol):
    """An order policy that goes by the service of the gangs that ended in its virtual cluster."""

    def by_services(self, services: Sequence[float]) -> OrderPolicy:
        """Return the order by these services (GPU-seconds), the last `MOST_SERVICES` at most."""
        ...


@runtime_checkable
class ExplainedPolicy(Protocol):
    """An order policy that says in its own words where a gang stands."""

    def standing(self, gang: Gang) -> Standing:
        """Return the numbers of its sentence, see `explain.standings`."""
        ...


@runtime_checkable
class SharePolicy(Protocol):
    """A policy that serves the tenant with the least share first. `shares.Shared` makes decisions
    of it. Its class is a frozen dataclass, as that of an order policy.

    weights: parameter text of the tenants' weights, see `weights_of`
    term_s: how long a gang runs before it yields to a tenant with a smaller share; 0: it never does
    """

    name: ClassVar[str]
    label: ClassVar[str]
    needs: ClassVar[Needs]

    @property
    def weights(self) -> str: ...
    @property
    def term_s(self) -> float: ...

    def share(self, held: Amounts, capacity: Amounts, weight: float) -> float:
        """Return the share of a tenant that holds so much. It never falls with what is held."""
        ...


@dataclass(frozen=True, slots=True)
class RoundView:
    """What a round policy sees: all guaranteed gangs of its domain, with what they ask for, as of
    the start of the round (seconds since the epoch)."""

    start: float
    gangs: Sequence[Gang]
    demand: Callable[[Gang], Amounts]
    capacity: Amounts
    accepts_any: Callable[[Gang], bool] = lambda gang: False
    placed_at: Mapping[str, float] = field(default_factory=dict)  # of those that run

    def ran_s(self, gang: Gang) -> float:
        """Return how long a gang has run up to the start of the round (seconds), as if all that
        time on the GPUs that it asks for."""
        gpus = gang.gpus if gang.attained_gpu_s else 0
        before = gang.attained_gpu_s / gpus if gpus else 0.0
        placed_at = self.placed_at.get(gang.id, self.start)
        return before + (self.start - placed_at) if placed_at < self.start else before

    def left_s(self, gang: Gang, ran: float | None = None) -> float:
        """Return how long a gang probably has to run yet (seconds); `ran`: what `ran_s` says of it.
        One of unknown duration counts as one as long again as it has run, `UNKNOWN_S` at least."""
        ran = self.ran_s(gang) if ran is None else ran
        expected = gang.expected_s
        return max(ran, UNKNOWN_S) if expected is None else max(expected - ran, 0.05 * ran, 1.0)

    def gpus(self, gang: Gang) -> Amounts:
        """Return the GPUs that a gang asks for, by leaf type; empty for one without GPUs."""
        return only_gpus(self.demand(gang))

    def main_gpus(self, gang: Gang) -> tuple[str, float] | None:
        """Return the leaf type of which a gang asks for the most GPUs, and how many of it; of equal
        ones the first by name. None: it asks for none."""
        demand = self.demand(gang)
        return demand.main if isinstance(demand, GangDemand) else GangDemand(demand).main


@runtime_checkable
class RoundPolicy(Protocol):
    """A policy that gives each gang a share of the time. `rounds.Rounds` makes decisions of it.
    Its class is a frozen dataclass, as that of an order policy.

    round_s: the length of a round in seconds
    """

    name: ClassVar[str]
    label: ClassVar[str]
    needs: ClassVar[Needs]

    @property
    def round_s(self) -> float: ...

    def shares(self, view: RoundView) -> Mapping[str, float]:
        """Return the share of the time, 0 to 1, in which each gang runs, by gang id. A gang with 0
        runs on what others leave idle."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The part of the time that each gang spends on each leaf type, by gang id. `warning`: why they
    are not what the policy would give, as a sentence; "": they are."""

    by_gang: Mapping[str, Mapping[str, float]]
    warning: str = ""


@runtime_checkable
class TypedRoundPolicy(RoundPolicy, Protocol):
    """A round policy that also says on which leaf types a gang spends its share."""

    def parts(self, view: RoundView) -> Parts:
        """Return the parts of each gang that asks for GPUs; they add up to its share."""
        ...


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ids of gangs, best first, and by id the numbers of the sentence on where a gang stands,
    see `explain.standings`."""

    order: Sequence[str]
    numbers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@runtime_checkable
class RankedPolicy(Protocol):
    """A policy that compares all gangs with each other as of the start of a round. `ranked.Ranked`
    makes decisions of it. Its class is a frozen dataclass, as that of an order policy.

    round_s: the length of a round in seconds
    """

    name: ClassVar[str]
    label: ClassVar[str]
    needs: ClassVar[Needs]

    @property
    def round_s(self) -> float: ...

    def ranking(self, view: RoundView) -> Ranking:
        """Return the order of the gangs of a view. Priorities are not its concern."""
        ...


@runtime_checkable
class AdmittingPolicy(RankedPolicy, Protocol):
    """A ranked policy that declines gangs by their deadlines when they are submitted."""

    def admits_by(self, view: RoundView, gang: Gang) -> Callable[[float], bool]:
        """Return what says whether a gang of the view, which is as of the start of the next round,
        would be admitted with a deadline (seconds since the epoch)."""
        ...


AnyPolicy = OrderPolicy | SharePolicy | RoundPolicy | RankedPolicy

WEIGHTS = r"(?:[^:;,=\s]{1,150}:\d{1,6}(?:\.\d{1,3})?(?:;|$))*"


def only_gpus(amounts: Amounts) -> dict[str, float]:
    """Return the amounts of GPUs alone, by leaf type; those of a demand are not to be changed."""
    if isinstance(amounts, GangDemand):
        return amounts.gpus
    return {name: some for name, some in amounts.items() if name not in (CPU, MEMORY)}


def weights_of(text: str) -> dict[str, float]:
    """Return the weights of `ann:2;bob:0.5` by user. Users that are not listed have 1."""
    pairs = (part.rpartition(":") for part in text.split(";") if part)
    return {name: max(float(weight), 0.001) for name, _, weight in pairs}


def parameter(
    default: Any,
    description: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    option: str = "",
    pattern: str = "",
) -> Any:
    """Declare a parameter of a policy. `option` names the field of `Options` that gives the default
    where the parameter is not set; `pattern` is what a text without choices has to match."""
    metadata = {
        "description": description,
        "minimum": minimum,
        "maximum": maximum,
        "choices": choices,
        "option": option,
        "pattern": pattern,
    }
    return field(default=default, metadata=metadata)


def backfill_parameter(default: str) -> Any:
    """Declare what happens behind a job that does not fit, as `BackfillMode` names it."""
    return parameter(
        default,
        "What happens behind a job that does not fit: `skip` lets any later job start; `block` "
        "lets no later job of its virtual cluster start on what it could use; `reserve` lets "
        "those start that do not delay it.",
        choices=tuple(mode.value for mode in BackfillMode),
    )


def round_parameter(default_s: float) -> Any:
    """Declare the length of the rounds of a round policy."""
    return parameter(
        default_s,
        "Seconds of a round, in which a job is not displaced.",
        minimum=5.0,
        maximum=86400.0,
    )
