"""Which cells virtual clusters get for what they claim: never more than are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from skep_scheduler.cells.feasible import free_levels, spare
from skep_scheduler.cells.shape import CellSpec, Shape, Share
from skep_scheduler.model import facts


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A VC claims `asked` and gets `got` cells. `chain` is "" for a count of GPUs, whose
    `cell_type` is the model, and `pin` the name of a pinned cell. `code` and `message` say why,
    `path` where in the assignment."""

    vc: str
    chain: str
    cell_type: str
    asked: int
    got: int
    code: str
    message: str
    path: str
    pin: str = ""


class Stock:
    """What is left of each chain while claims are met one after the other."""

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        tops: Sequence[tuple[str, CellSpec]],
        pinned: Iterable[str],
    ) -> None:
        self.shapes = shapes
        owned = set(pinned)
        self._free = {chain: [0] * (shape.top + 1) for chain, shape in shapes.items()}
        self._claims = {chain: [0] * (shape.top + 1) for chain, shape in shapes.items()}
        for chain, top in tops:
            shape = shapes[chain]
            for level in free_levels(shape, top, shape.top, owned):
                self._free[chain][level] += 1

    def left(self, chain: str) -> list[int]:
        """Cells by level that may still be claimed, one level at a time; index 0 is unused."""
        shape = self.shapes[chain]
        spares = spare(shape, self._free[chain], self._claims[chain])[: shape.top + 1]
        left = [0] * (shape.top + 1)
        for level in range(1, shape.top + 1):
            left[level] = min(
                spares[lower] // shape.cells_in(level, lower) for lower in range(1, level + 1)
            )
        return left

    def take(self, chain: str, level: int, number: int) -> int:
        """How many of `number` cells there were."""
        got = max(0, min(number, self.left(chain)[level]))
        self._claims[chain][level] += got
        return got


def meet(
    stock: Stock, vcs: Sequence[facts.VirtualCluster], models: Mapping[str, frozenset[str]]
) -> tuple[dict[str, list[Share]], list[Shortfall]]:
    """Give cells to the claims of cells first, then to the counts of GPUs, each in the order of
    the VCs.
    `models` has the GPU models of each leaf type."""
    shares: dict[str, list[Share]] = {vc.name: [] for vc in vcs}
    short: list[Shortfall] = []
    for vc in vcs:
        cells = [claim for claim in vc.claims if claim.chain]
        for i, claim in enumerate(cells):
            if claim.number <= 0:
                continue
            path = f"virtual_clusters.{vc.name}.cells[{i}]"
            _cells(stock, vc.name, claim, path, shares[vc.name], short)
    for vc in vcs:
        for claim in vc.claims:
            if not claim.chain:
                _count(stock, vc.name, claim, models, shares[vc.name], short)
    return shares, short


def _cells(
    stock: Stock,
    vc: str,
    claim: facts.Claim,
    path: str,
    shares: list[Share],
    short: list[Shortfall],
) -> None:
    shape = stock.shapes.get(claim.chain)
    if shape is None:
        what = f"The cluster has no cells of chain {claim.chain} at present."
        short.append(_shortfall(vc, claim, 0, "unknown_chain", what, path))
        return
    level = shape.level_of.get(claim.cell_type)
    if level is None:
        what = f"Chain {claim.chain} has no cell type {claim.cell_type}."
        short.append(_shortfall(vc, claim, 0, "unknown_cell_type", what, path))
        return
    got = stock.take(claim.chain, level, claim.number)
    if got:
        shares.append(Share(claim.chain, level, got))
    if got < claim.number:
        what = (
            f"{vc} asks for {claim.number} {claim.cell_type}, but only {got} are there beside "
            "what else is owned."
        )
        short.append(_shortfall(vc, claim, got, "too_many_cells", what, path))


def _count(
    stock: Stock,
    vc: str,
    claim: facts.Claim,
    models: Mapping[str, frozenset[str]],
    shares: list[Share],
    short: list[Shortfall],
) -> None:
    """Give the largest cells that fit, up to whole nodes: so one more rack changes nothing for VCs
    that only count. Big nodes first."""
    chains = [
        shape for shape in stock.shapes.values() if claim.cell_type in models[shape.leaf_type]
    ]
    missing = claim.number
    for shape in sorted(
        chains, key=lambda shape: (-shape.at(shape.node_level).leaves, shape.chain)
    ):
        for level in range(shape.node_level, 0, -1):
            leaves = shape.at(level).leaves
            got = stock.take(shape.chain, level, missing // leaves)
            if got:
                shares.append(Share(shape.chain, level, got))
                missing -= got * leaves
    if missing > 0:
        got = claim.number - missing
        path = f"virtual_clusters.{vc}.quotas.{claim.cell_type}"
        if not chains:
            what = f"The cluster has no {claim.cell_type} at present."
            short.append(_shortfall(vc, claim, got, "unknown_gpu_model", what, path))
        else:
            what = (
                f"{vc} asks for {claim.number} {claim.cell_type}, but only {got} are there beside "
                "what else is owned."
            )
            short.append(_shortfall(vc, claim, got, "too_many_gpus", what, path))


def _shortfall(
    vc: str, claim: facts.Claim, got: int, code: str, message: str, path: str
) -> Shortfall:
    return Shortfall(vc, claim.chain, claim.cell_type, claim.number, got, code, message, path)
