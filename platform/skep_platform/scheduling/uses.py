"""Samples of what virtual clusters own and use, for their history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.utils import timezone

from skep_platform.scheduling.models import VcUse
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.cells.health import lost
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import OPPORTUNISTIC
from skep_scheduler.cells.tree import Virtual
from skep_scheduler.world import World

FINE = timedelta(days=7)  # every minute; older samples every quarter of an hour
KEEP = timedelta(days=90)


@dataclass(slots=True)
class Use:
    """GPUs; see `VcUse`."""

    owned: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0
    bad: int = 0
    waiting: int = 0


Uses = dict[tuple[str, str], Use]  # by the names of VC and GPU model


def sample(world: World, now: datetime | None = None) -> int:
    """Store this minute's use of all virtual clusters; returns the number of rows. A minute that
    was sampled already is left alone."""
    at = (now or timezone.now()).replace(second=0, microsecond=0)
    vcs = dict(VirtualCluster.objects.values_list("name", "pk"))
    rows = [
        VcUse(vc_id=vcs[vc], gpu_model=model, at=at, **asdict(use))
        for (vc, model), use in measure(world).items()
        if vc in vcs
    ]
    return len(VcUse.objects.bulk_create(rows, ignore_conflicts=True))


def measure(world: World) -> Uses:
    """What each virtual cluster owns and uses at this moment; reads the world only."""
    models = _models(world)
    uses: Uses = defaultdict(Use)
    _own(world, models, uses)
    _borrow(world, models, uses)
    _wait(world, models, uses)
    return dict(uses)


def prune() -> None:
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(PRUNE, [now - KEEP, now - FINE])


PRUNE = """
DELETE FROM scheduling_vcuse
 WHERE at < %s
    OR at < %s AND extract(minute FROM at)::int %% 15 <> 0
"""


def _models(world: World) -> dict[str, str]:
    """The GPU model of each leaf type."""
    known = {device.model for node in world.nodes.values() for device in node.devices}
    return {leaf: model for model in sorted(known) for leaf in world.leaf_types(model)}


def _own(world: World, models: dict[str, str], uses: Uses) -> None:
    cells = world.holds.cells
    idle = {chain: _idle(pool) for chain, pool in cells.chains.items()}
    for name, vc in cells.vcs.items():
        for domain in (*vc.chains.values(), *vc.pins.values()):
            leaf = cells.chains[domain.chain].shape.leaf_type
            use, unbound = uses[name, models.get(leaf, leaf)], 0
            for level, roots in domain.by_level.items():
                bare = _own_cells(roots, use)
                gone = lost(cells, name, domain.chain, level) if bare else 0
                use.bad += gone * roots[0].spec.leaves
                unbound += (bare - gone) * roots[0].spec.leaves
            use.lent += max(unbound - idle[domain.chain], 0)


def _own_cells(roots: Sequence[Virtual], use: Use) -> int:
    """Returns how many of them have no place at present."""
    unbound = 0
    for root in roots:
        use.owned += root.spec.leaves
        use.used += root.used_total
        if root.physical is None:
            unbound += 1
        else:
            use.bad += root.physical.bad
            use.lent += root.physical.used_at(OPPORTUNISTIC)
    return unbound


def _idle(pool: Pool) -> int:
    """Healthy GPUs that nobody uses, in cells that no virtual cluster has bound."""
    free = (cell for cells in pool.free for cell in cells.cells)
    return sum(max(cell.spec.leaves - cell.used_total - cell.bad, 0) for cell in free)


def _borrow(world: World, models: dict[str, str], uses: Uses) -> None:
    cells = world.holds.cells
    for group in cells.groups.values():
        if group.opportunistic and not group.preempting:
            leaf = cells.chains[group.chain].shape.leaf_type if group.chain in cells.chains else ""
            gpus = sum(len(seat.indices) for seat in group.seats)
            uses[group.gang.vc, models.get(leaf, leaf)].borrowed += gpus


def _wait(world: World, models: dict[str, str], uses: Uses) -> None:
    """A gang that takes any model counts for the first that its virtual cluster owns."""
    first: dict[str, str] = {}
    for (vc, model), use in uses.items():
        if use.owned:
            first.setdefault(vc, model)
    for gang in world.waiting.values():
        for member in gang.members:
            asked = member.gpu_model or first.get(gang.vc)
            if asked and member.gpus:
                uses[gang.vc, models.get(asked, asked)].waiting += member.count * member.gpus
