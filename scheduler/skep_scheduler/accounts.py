"""What each VC owns and uses, per GPU model: quota is used by its guaranteed tasks alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from skep_scheduler.gang import Kind, is_open
from skep_scheduler.state import Gang, Snapshot


class Account:
    """One VC. `used[model]` is the sum of `holders[model]`, GPUs by gang id."""

    def __init__(self, owns: Mapping[str, int]) -> None:
        self.owns = {model: gpus for model, gpus in sorted(owns.items()) if gpus > 0}
        self.used: Counter[str] = Counter()
        self.holders: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def affords(self, needs: Iterable[tuple[str, int]]) -> bool:
        return all(self.used[model] + gpus <= self.owns.get(model, 0) for model, gpus in needs)

    def charge(self, gang_id: str, model: str, gpus: int) -> None:
        self.used[model] += gpus
        self.holders[model][gang_id] += gpus


class Accounts:
    """The accounts of all VCs, by name, charged with what runs."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.vcs = {vc.name: Account(vc.quota) for vc in snapshot.virtual_clusters}
        self.gang_names: dict[str, str] = {}
        self.opportunistic: Counter[str] = Counter()  # GPUs by model, of all VCs
        self.models = sorted(
            {m for node in snapshot.nodes for m, gpus in node.gpus.items() if gpus}
        )
        for task in snapshot.running:
            self.gang_names[task.gang_id] = task.gang_name
            if task.gpu_model is not None:
                needs = [(task.gpu_model, len(task.gpu_uuids))]
                self._charge(task.vc, task.gang_id, needs, task.opportunistic)

    def models_for(self, kind: Kind) -> Sequence[str | None]:
        """The models to try, in name order, for the members that name none: what the VC owns, or
        for an opportunistic gang what there is. (None,) where nothing is to be chosen."""
        if not is_open(kind.shape):
            return (None,)
        return self.models if kind.opportunistic else list(self.vcs[kind.vc].owns)

    def charge(self, gang: Gang, needs: Iterable[tuple[str, int]]) -> None:
        """Book a gang that was just placed."""
        self.gang_names[gang.id] = gang.name
        self._charge(gang.vc, gang.id, needs, gang.opportunistic)

    def _charge(
        self, vc: str, gang_id: str, needs: Iterable[tuple[str, int]], opportunistic: bool
    ) -> None:
        for model, gpus in needs:
            if opportunistic:
                self.opportunistic[model] += gpus
            elif vc in self.vcs:  # tasks of a VC that was deleted run to their end
                self.vcs[vc].charge(gang_id, model, gpus)
