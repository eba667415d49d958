"""Who uses a quota: the gangs that hold the most of it."""

from __future__ import annotations

from skep_scheduler.accounts import Accounts

NAMED = 3  # gangs that a reason names

Top = list[dict[str, object]]


class Holders:
    """Ranked once per VC and GPU model, however many reasons name them."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._known: dict[tuple[str, str], tuple[Top, int]] = {}

    def of(self, vc: str, model: str) -> tuple[Top, int]:
        """The gangs that hold the most, and how many others there are."""
        if (vc, model) not in self._known:
            self._known[vc, model] = self._rank(vc, model)
        return self._known[vc, model]

    def _rank(self, vc: str, model: str) -> tuple[Top, int]:
        gpus, names = self._accounts.vcs[vc].holders[model], self._accounts.gang_names
        ranked = sorted(gpus, key=lambda gang_id: (-gpus[gang_id], names[gang_id], gang_id))
        top: Top = [
            {"gang_id": gang_id, "name": names[gang_id] or gang_id, "gpus": gpus[gang_id]}
            for gang_id in ranked[:NAMED]
        ]
        return top, len(ranked) - len(top)
