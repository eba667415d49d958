"""What a check looks at."""

from __future__ import annotations

from dataclasses import dataclass

from skep_scheduler.accounts import Account, Accounts
from skep_scheduler.gang import Demand, Demands
from skep_scheduler.reasons.stock import EMPTY, Stock, Stocks


@dataclass(frozen=True, slots=True)
class Case:
    """A gang that was refused, with one choice of GPU model, and the numbers of the moment.

    Its reason is shared by all gangs of this shape in the VC, so nothing here names the gang.
    """

    demands: Demands
    vc: str
    account: Account | None  # None: opportunistic, needs no quota
    accounts: Accounts
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
