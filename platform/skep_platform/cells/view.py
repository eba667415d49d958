"""The scheduler's world as this process knows it, to look at and never to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from skep_platform.scheduling import world as worlds
from skep_scheduler import facts, inventory
from skep_scheduler.cells.state import State
from skep_scheduler.cells.tree import Physical
from skep_scheduler.world import World


@dataclass(frozen=True, slots=True)
class View:
    world: World

    @property
    def state(self) -> State:
        return self.world.cells

    @property
    def inventory(self) -> facts.Inventory:
        return self.world.inventory

    def gpu_model(self, leaf_type: str) -> str:
        """As nodes report it, whatever the cells call it; one of them, where there are several."""
        models = self.world.built.models.get(leaf_type, frozenset())
        return min(models - {leaf_type}, default=leaf_type)

    def device(self, leaf: Physical) -> facts.Device | None:
        """None for one that no node has: a file may name it."""
        node = self.world.nodes.get(leaf.node or "")
        devices = node.devices if node is not None else ()
        return next((device for device in devices if device.uuid == leaf.index), None)

    def describe(self, cell_type: str) -> dict[str, Any]:
        """{"kind", "words"}: what people call it."""
        told = inventory.describe(self.state.config, cell_type)
        return {"kind": told["kind"], "words": told["words"]}

    def missing(self, vc: str, chain: str) -> dict[str, int]:
        """Cells by type that it was given and that the cluster does not have."""
        return {
            short.cell_type: short.asked - short.got
            for short in self.world.built.shortfalls
            if short.vc == vc and short.chain == chain and not short.pin
        }

    def shortfalls(self, vc: str) -> list[dict[str, Any]]:
        return [show(short) for short in self.world.built.shortfalls if short.vc == vc]


@contextmanager
def current() -> Iterator[View]:
    """Nobody else has it meanwhile: keep nothing of it."""
    with worlds.view() as world:
        world.settle()
        yield View(world)


def show(short: inventory.Shortfall) -> dict[str, Any]:
    return {
        "virtual_cluster": short.vc,
        "chain": short.chain,
        "cell_type": short.cell_type,
        "asked": short.asked,
        "got": short.got,
    }
