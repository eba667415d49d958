"""Why gangs wait: a code, a sentence for their owners, and the numbers behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from skep_scheduler.accounts import Accounts
from skep_scheduler.gang import Kind, demands_of
from skep_scheduler.plan import Reason
from skep_scheduler.reasons import capacity, never, quota, words
from skep_scheduler.reasons.case import Case
from skep_scheduler.reasons.codes import HOPE, Code
from skep_scheduler.reasons.holders import Holders
from skep_scheduler.reasons.stock import Stocks
from skep_scheduler.room import Room
from skep_scheduler.state import Gang, Snapshot

# In the order in which they matter to the owner; the first one that applies is the reason.
CHECKS = (
    never.no_such_model,
    never.quota_too_small,
    never.task_too_large,
    never.gang_too_large,
    capacity.no_open_node,
    quota.quota_used_up,
    capacity.too_few_free,
    capacity.no_room_for_tasks,
)


class Explainer:
    """Explains refusals from the numbers after a tick. It never searches for room again, and
    gangs of one kind share one reason, whatever their number."""

    def __init__(self, snapshot: Snapshot, room: Room, accounts: Accounts) -> None:
        self._snapshot, self._room, self._accounts = snapshot, room, accounts
        self._holders = Holders(accounts)
        self._known: dict[Kind, Reason] = {}

    @cached_property
    def _stocks(self) -> Stocks:
        return Stocks(self._snapshot, self._room)

    def reasons(self, gangs: Sequence[tuple[Gang, Kind]], now: float) -> dict[str, Reason]:
        """By gang id, for gangs left waiting, in the order of the queue. The detail `ahead` is the
        number of gangs of the same VC that wait before it."""
        ahead: Counter[str] = Counter()
        reasons = {}
        for gang, kind in gangs:
            reason = self._reason(gang, kind, now)
            details = {**reason.details, "ahead": ahead[gang.vc]}
            reasons[gang.id] = Reason(reason.code, reason.message, details)
            ahead[gang.vc] += 1
        return reasons

    def _reason(self, gang: Gang, kind: Kind, now: float) -> Reason:
        if gang.vc not in self._accounts.vcs:
            return _unknown_vc(gang)
        if gang.not_before > now:
            return _backoff(gang)
        if kind not in self._known:
            self._known[kind] = self._explain(kind)
        return self._known[kind]

    def _explain(self, kind: Kind) -> Reason:
        models = self._accounts.models_for(kind)
        if not models:
            return _no_model(kind)
        return _join({model: _first_reason(self._case(kind, model)) for model in models})

    def _case(self, kind: Kind, model: str | None) -> Case:
        account = None if kind.opportunistic else self._accounts.vcs[kind.vc]
        demands = demands_of(kind.shape, model)
        lent = self._accounts.opportunistic
        return Case(demands, kind.vc, account, lent, self._holders, self._stocks)


def _first_reason(case: Case) -> Reason:
    for check in CHECKS:
        for reason in check(case):
            return reason
    return capacity.no_room_together(case)


def _join(by_model: dict[str | None, Reason]) -> Reason:
    """One reason for a gang that any of several models would do for."""
    best = min(by_model.values(), key=lambda reason: HOPE[reason.code])
    if len(by_model) == 1:
        return best
    each = " ".join(f"{model}: {reason.message}" for model, reason in by_model.items())
    models = {model: {"code": r.code, **r.details} for model, r in by_model.items()}
    return Reason(
        best.code, f"Any one GPU model will do. {each}", {**best.details, "models": models}
    )


def _unknown_vc(gang: Gang) -> Reason:
    message = f"There is no virtual cluster {gang.vc}: submit it to another one."
    return Reason(Code.UNKNOWN_VC, message, {"vc": gang.vc})


def _backoff(gang: Gang) -> Reason:
    message = f"Waits before its retry, until {words.moment(gang.not_before)}."
    return Reason(Code.BACKOFF, message, {"until": gang.not_before})


def _no_model(kind: Kind) -> Reason:
    """Guaranteed and open, but the VC owns no GPUs; or opportunistic where there are none."""
    gpus = sum(member.tasks * member.need.gpus for member in kind.shape)
    details: dict[str, object] = {"vc": kind.vc, "needs": gpus, "owns": 0}
    if kind.opportunistic:
        return Reason(Code.NO_GPU_MODEL, "No node has a healthy GPU.", details)
    message = (
        f"Needs {words.count(gpus, 'GPU')}, but {kind.vc} owns none: have the quota raised, "
        "or submit it as opportunistic."
    )
    return Reason(Code.NEVER_FITS_QUOTA, message, details)
