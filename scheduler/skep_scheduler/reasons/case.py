"""What a check looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skep_scheduler.accounts import Account
from skep_scheduler.gang import Demand, Demands
from skep_scheduler.reasons.holders import Holders
from skep_scheduler.reasons.stock import EMPTY, Stock, Stocks


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of gang that was refused, one choice of GPU model, and the numbers of the moment."""

    demands: Demands
    vc: str
    account: Account | None  # None: opportunistic, needs no quota
    lent: Mapping[str, int]  # GPUs that opportunistic gangs hold, by model
    holders: Holders
    stocks: Stocks

    def full(self, model: str | None) -> Stock:
        return self.stocks.full.get(model, EMPTY)

    def open(self, model: str | None) -> Stock:
        return self.stocks.open.get(model, EMPTY)

    def free(self, model: str | None) -> Stock:
        return self.stocks.free.get(model, EMPTY)


def task_numbers(demand: Demand, room: int) -> dict[str, object]:
    """Details of equal tasks of which `room` would find room."""
    return {
        "gpu_model": demand.model,
        "tasks": demand.tasks,
        "room_for_tasks": room,
        "task": demand.need._asdict(),
    }
