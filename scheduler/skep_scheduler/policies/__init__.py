"""Policies: which gang comes first within a virtual cluster. One module each, registered here.

To add one: a module with a frozen dataclass that meets `base.OrderPolicy`, `base.SharePolicy`,
`base.RoundPolicy`, `base.RankedPolicy` or `elastic.LiveElasticPolicy`, a line in `POLICIES`, and
its name in `families`.
The REST API, the pages and the command line learn of it from its schema.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from skep_scheduler.model import Options, PolicyChoice
from skep_scheduler.policies.afs import Afs, Coddl
from skep_scheduler.policies.base import (
    AnyPolicy,
    Keep,
    Knows,
    LearnsServices,
    OrderPolicy,
    Policy,
    RankedPolicy,
    RoundPolicy,
    SharePolicy,
    Thresholds,
    VariableNeeds,
)
from skep_scheduler.policies.by_size import Largest, Ljf, Smallest
from skep_scheduler.policies.chronus_live import ChronusLive
from skep_scheduler.policies.drf import Drf
from skep_scheduler.policies.edf import Edf
from skep_scheduler.policies.elastic import LiveElasticPolicy
from skep_scheduler.policies.elasticflow import ElasticFlow
from skep_scheduler.policies.families import FAMILY_OF
from skep_scheduler.policies.fifo import Fifo
from skep_scheduler.policies.gandiva_fair import GandivaFair, Stride
from skep_scheduler.policies.gandiva_trading import GandivaTrading
from skep_scheduler.policies.gavel.live import OBJECTIVES, Gavel
from skep_scheduler.policies.karuna import Karuna
from skep_scheduler.policies.lucid_order import LucidOrder
from skep_scheduler.policies.mlfs import Mlfs
from skep_scheduler.policies.optimus import Optimus
from skep_scheduler.policies.ordered import Ordered
from skep_scheduler.policies.pai_sjf import PaiSjf
from skep_scheduler.policies.priority_ageing import PriorityAgeing
from skep_scheduler.policies.ranked import Ranked
from skep_scheduler.policies.rounds import Rounds
from skep_scheduler.policies.shares import Shared
from skep_scheduler.policies.sized import Sized
from skep_scheduler.policies.sjf import Sjf
from skep_scheduler.policies.srsf import Srsf
from skep_scheduler.policies.srtf import Srtf
from skep_scheduler.policies.themis import Themis
from skep_scheduler.policies.tiresias import Tiresias, TiresiasGittins

LivePolicy = AnyPolicy | LiveElasticPolicy
ELASTIC: tuple[type[LiveElasticPolicy], ...] = (Afs, Coddl, Optimus, Karuna, ElasticFlow)
POLICIES: tuple[type[LivePolicy], ...] = (
    PriorityAgeing,
    Fifo,
    Sjf,
    Ljf,
    Smallest,
    Largest,
    PaiSjf,
    LucidOrder,
    Srtf,
    Srsf,
    Tiresias,
    TiresiasGittins,
    Edf,
    Mlfs,
    ChronusLive,
    Themis,
    Drf,
    GandivaFair,
    GandivaTrading,
    Stride,
    Gavel,
    *ELASTIC,
)
DEFAULT = PriorityAgeing.name
FREE_RESTART = "It is preempted as if a restart cost nothing."
# What `skep simulate` has and a virtual cluster cannot choose, and why.
SIMULATED_ONLY: Mapping[str, str] = {
    **dict.fromkeys(
        ("pollux", "sia"), "jobs do not report their gradient noise and the time of their steps"
    ),
    **dict.fromkeys(
        ("gandiva", "lucid", "muri-l", "muri-s", "salus"),
        "agents give a GPU to one task at a time",
    ),
    **{
        name: f"live it is an objective of gavel: choose gavel with objective={name}"
        for name in OBJECTIVES
    },
    "shockwave": "jobs do not report their epochs and batch sizes",
    **dict.fromkeys(
        ("dl2", "mlf_rl"), "it is experimental: what a network decides is only to be simulated"
    ),
    "allox": "its matching is defined for jobs of one GPU only; choose gavel, which shares GPU "
    "models by speed",
    "antman": "nodes give whole GPUs to tasks",
    "carbyne": "nodes give no fractions of GPU time",
    "fgd": "nodes give whole GPUs to tasks",
    "hug": "jobs ask for fixed amounts",
    "synergy": "agents cannot change CPU and memory of a running job",
}

PolicyOf = Callable[[str], Policy]  # by the name of the virtual cluster; "" is the idle domain


class PolicyError(ValueError):
    """A choice that is not to be had. `code` is `unknown_policy`, `policy_simulated_only` or
    `bad_policy_parameter`;
    `details` are the numbers and names behind the message."""

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details


def names() -> tuple[str, ...]:
    return tuple(policy.name for policy in POLICIES)


def schema(policy: type[LivePolicy]) -> dict[str, Any]:
    """Return name, family, description and parameters of a policy as plain data."""
    return {
        "name": policy.name,
        "family": FAMILY_OF[policy.name].value,
        "description": " ".join((policy.__doc__ or "").split()),
        "parameters": [
            {
                "name": known.name,
                "type": _type(known),
                "default": known.default,
                "description": known.metadata["description"],
                "minimum": known.metadata["minimum"],
                "maximum": known.metadata["maximum"],
                "choices": list(known.metadata["choices"]),
            }
            for known in _fields(policy)
        ],
    }


def check(choice: PolicyChoice, among: Iterable[type[LivePolicy]] = POLICIES) -> type[LivePolicy]:
    """Return the chosen policy. Raises `PolicyError` for an unknown policy, an unknown parameter or
    a value out of range."""
    policy = _find(choice.name, among)
    fields = {known.name: known for known in _fields(policy)}
    for name, value in choice.parameters:
        if name not in fields:
            raise PolicyError(
                "bad_policy_parameter",
                f"{policy.name} has no parameter {name!r}. {_known_parameters(fields)}",
                policy=policy.name,
                parameter=name,
                known=sorted(fields),
            )
        _check_value(policy, fields[name], value)
    return policy


def value_of(choice: PolicyChoice, parameter: str) -> object:
    """Return the value that a parameter of a chosen policy has, chosen or its default; None: the
    policy has none of that name, or is unknown."""
    given = dict(choice.parameters)
    if parameter in given:
        return given[parameter]
    known = next((policy for policy in POLICIES if policy.name == (choice.name or DEFAULT)), None)
    fields = _fields(known) if known is not None else ()
    return next((one.default for one in fields if one.name == parameter), None)


def chooses_sizes(choice: PolicyChoice) -> bool:
    """Return whether a policy chooses with how many tasks elastic jobs run."""
    known = next((policy for policy in POLICIES if policy.name == choice.name), None)
    return known is not None and issubclass(known, tuple(ELASTIC))


def learns_services(choice: PolicyChoice) -> bool:
    """Return whether a policy goes by the service of the jobs of its virtual cluster that ended."""
    known = next((policy for policy in POLICIES if policy.name == choice.name), None)
    return known is not None and issubclass(known, LearnsServices)


def admits_by_deadline(choice: PolicyChoice) -> bool:
    """Return whether a policy itself says which deadlines can be met."""
    known = next((policy for policy in POLICIES if policy.name == choice.name), None)
    return known is not None and (chooses_sizes(choice) or known is ChronusLive)


def has_limits(choice: PolicyChoice) -> bool:
    """Return whether the order of a policy changes when a running job reaches a limit."""
    known = next((policy for policy in POLICIES if policy.name == choice.name), None)
    return known is not None and issubclass(known, Thresholds)


@dataclasses.dataclass(frozen=True, slots=True)
class Demands:
    """What a policy, as it was chosen, asks of jobs.

    facts: what it must know about a job: `duration`, `deadline` or `history` (earlier jobs that
        were like it), sorted
    otherwise: one sentence on what happens to a job of which it does not know these
    assumed: what it also decides by (`speeds`, `speedup`, `restart`), sorted, each with one
        sentence on what it takes for true of a job of which it is not known
    preempts: whether a running job may be preempted for one of the same priority
    resizes: whether it chooses with how many tasks elastic jobs run
    """

    facts: tuple[str, ...]
    otherwise: str
    assumed: tuple[tuple[str, str], ...]
    preempts: bool
    resizes: bool


def demands(choice: PolicyChoice) -> Demands:
    """Return what a policy asks of jobs. Raises `PolicyError`."""
    made = _make(choice, Options(), POLICIES)
    needs = made.needs_as_chosen() if isinstance(made, VariableNeeds) else made.needs
    ranks = isinstance(made, RankedPolicy)
    resizes = isinstance(made, LiveElasticPolicy) and not ranks
    if isinstance(made, RoundPolicy) or ranks:
        preempts = True
    elif isinstance(made, SharePolicy):
        preempts = made.term_s > 0
    else:
        preempts = not resizes and cast(OrderPolicy, made).keep != Keep.FIRM
    facts = tuple(sorted(fact.value for fact in needs.must_know))
    assumes = ({Knows.RESTART: FREE_RESTART} if preempts else {}) | dict(needs.assumes)
    assumed = tuple(sorted((fact.value, sentence) for fact, sentence in assumes.items()))
    return Demands(facts, needs.otherwise, assumed, preempts, resizes)


def make(choice: PolicyChoice, options: Options) -> Policy:
    """Return the policy as it was chosen. Raises `PolicyError`."""
    made = _make(choice, options, POLICIES)
    if isinstance(made, RoundPolicy):
        return Rounds(made)
    if isinstance(made, SharePolicy):
        return Shared(made)
    if isinstance(made, RankedPolicy):
        return Ranked(made)
    if isinstance(made, LiveElasticPolicy):
        return Sized(made)
    return Ordered(made)


def make_order(
    choice: PolicyChoice, options: Options, among: Iterable[type[OrderPolicy]]
) -> OrderPolicy:
    """Return the order policy as it was chosen, one of `among`. Raises `PolicyError`."""
    made = _make(choice, options, among)
    assert not isinstance(made, RoundPolicy | SharePolicy)
    return cast(OrderPolicy, made)


def _make(choice: PolicyChoice, options: Options, among: Iterable[type[LivePolicy]]) -> LivePolicy:
    policy, given = check(choice, among), dict(choice.parameters)
    for known in _fields(policy):
        if known.metadata["option"]:
            given.setdefault(known.name, getattr(options, known.metadata["option"]))
    return policy(**given)


def policy_of(choices: Mapping[str, PolicyChoice], options: Options) -> PolicyOf:
    """Return the policy of each virtual cluster: as it was chosen, or the default. A choice that
    this version does not know is the default, too: planning never fails for it."""
    made: dict[PolicyChoice, Policy] = {}

    def find(vc: str) -> Policy:
        choice = choices.get(vc, PolicyChoice())
        if choice not in made:
            try:
                made[choice] = make(choice, options)
            except PolicyError:
                made[choice] = make(PolicyChoice(), options)
        return made[choice]

    return find


def _find(name: str, among: Iterable[type[LivePolicy]]) -> type[LivePolicy]:
    known = [policy.name for policy in among]
    for policy in among:
        if policy.name == (name or DEFAULT):
            return policy
    if among is POLICIES and name in SIMULATED_ONLY:
        raise PolicyError(
            "policy_simulated_only",
            f"{name} can only be simulated: {SIMULATED_ONLY[name]}. "
            f"Policies of a virtual cluster are: {', '.join(known)}.",
            policy=name,
            known=known,
        )
    raise PolicyError(
        "unknown_policy",
        f"There is no policy {name!r}. Policies are: {', '.join(known)}.",
        policy=name,
        known=known,
    )


def _fields(policy: type[LivePolicy]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(policy)  # type: ignore[arg-type]


def _type(known: dataclasses.Field[Any]) -> str:
    return {float: "number", int: "integer", str: "string"}[type(known.default)]


def _known_parameters(fields: Mapping[str, object]) -> str:
    return f"Its parameters are: {', '.join(sorted(fields))}." if fields else "It has none."


def _check_value(policy: type[LivePolicy], known: dataclasses.Field[Any], value: object) -> None:
    meta = known.metadata
    if meta["choices"]:
        good, wanted = value in meta["choices"], f"one of {', '.join(meta['choices'])}"
    elif isinstance(known.default, str):
        good = isinstance(value, str) and len(value) <= 4000
        good = good and re.fullmatch(meta["pattern"], str(value)) is not None
        wanted = "a text such as its description has"
    else:
        whole = isinstance(known.default, int)
        number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        low, high = meta["minimum"], meta["maximum"]
        good = number and (low is None or value >= low) and (high is None or value <= high)
        wanted = _range("a whole number" if whole else "a number", low, high)
    if not good:
        raise PolicyError(
            "bad_policy_parameter",
            f"{known.name} of {policy.name} is {wanted}.",
            policy=policy.name,
            parameter=known.name,
            value=value,
            minimum=meta["minimum"],
            maximum=meta["maximum"],
            choices=list(meta["choices"]),
        )


def _range(what: str, low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"{what} from {low:g} to {high:g}"
    if low is not None:
        return f"{what} of at least {low:g}"
    return what if high is None else f"{what} of at most {high:g}"
