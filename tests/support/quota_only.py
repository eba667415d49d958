"""The policy that cells are better than: it counts devices."""

from __future__ import annotations


class QuotaOnly:
    """A job of a VC starts where GPUs are free, while its VC uses no more than it owns. Fair in
    numbers, and it does not help."""

    def __init__(self) -> None:
        self.free = {"node0": 16, "node1": 16}
        self.owns = {"vc1": 16, "vc2": 16}
        self.runs: dict[str, tuple[str, int, str]] = {}

    def start(self, name: str, vc: str, size: int) -> str | None:
        """The node that it runs on from now on."""
        fits = [node for node in sorted(self.free) if self.free[node] >= size]
        if self.owns[vc] < size or not fits:
            return None
        chosen = max(fits, key=self.free.__getitem__)  # spread, as balancing schedulers do
        self.free[chosen] -= size
        self.owns[vc] -= size
        self.runs[name] = (vc, size, chosen)
        return chosen

    def end(self, name: str) -> None:
        if name in self.runs:
            vc, size, node = self.runs.pop(name)
            self.free[node] += size
            self.owns[vc] += size
