"""What the server answers about cells, queues and drains. Quantities are cells unless a field's
name says GPUs; trees of cells count GPUs."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from skep_client.models import Claim, JobSummary, Model, Reason, VirtualCluster


class CellLevel(Model):
    type: str
    level: int
    gpus: int
    kind: str = ""
    words: str = ""
    is_node: bool = False


class CellTotal(Model):
    type: str
    total: int
    owned: int
    left: int | None = None  # for admins
    bad: int = 0


class Chain(Model):
    chain: str
    gpu_model: str
    nodes: int
    levels: list[CellLevel] = []
    totals: list[CellTotal] = []


class PlacedPin(Model):
    name: str
    cell_type: str
    node: str
    device: str = ""
    virtual_cluster: str | None = None


class Cells(Model):
    revision: int
    source: str
    chains: list[Chain] = []
    pins: list[PlacedPin] = []


def owned_gpus(vc: VirtualCluster, cells: Cells) -> dict[str, int]:
    """GPUs that a virtual cluster owns by model: by number, as cells, as pinned cells."""
    sizes = {
        (chain.chain, level.type): (chain.gpu_model, level.gpus)
        for chain in cells.chains
        for level in chain.levels
    }
    of_any_chain = {cell_type: size for (_, cell_type), size in sizes.items()}
    pins = {pin.name: pin.cell_type for pin in cells.pins}
    found = [(sizes.get((own.chain, own.cell_type)), own.number) for own in vc.cells]
    found += [(of_any_chain.get(pins.get(name, "")), 1) for name in vc.pins]
    owned = Counter(vc.quotas)
    for size, number in found:
        if size is not None:  # else its cells are gone with their last node
            owned[size[0]] += size[1] * number
    return dict(owned)


class CellJob(Model):
    id: str
    name: str


class PhysicalCell(Model):
    address: str
    type: str
    gpus: int
    bad: int = 0
    used: int = 0
    lent: int = 0
    virtual_cluster: str | None = None
    pin: str | None = None
    node: str | None = None
    children: list[PhysicalCell] | None = None  # None: not asked for
    uuid: str = ""
    index: int | None = None
    state: str = ""
    job: CellJob | None = None


class VcClaims(Model):
    cells: list[Claim] = []
    quotas: dict[str, int] = {}
    pins: list[str] = []


class Pin(Model):
    name: str
    cell_type: str
    node: str
    device: str = ""


class Assignment(Model):
    """What all virtual clusters own. Change it by `model_copy`, keep its `revision`, and send it
    back: another change in between is then noticed."""

    revision: int
    virtual_clusters: dict[str, VcClaims] = {}
    pins: list[Pin] = []


class AssignmentError(Model):
    code: str
    message: str
    path: str = ""
    details: dict[str, Any] = {}


class Left(Model):
    chain: str
    type: str
    total: int
    left: int


class AffectedJob(Model):
    job_id: str
    name: str
    virtual_cluster: str
    reason: Reason | None = None


class Shortfall(Model):
    virtual_cluster: str
    chain: str = ""
    cell_type: str
    asked: int
    got: int


class Oddity(Model):
    path: str
    message: str


class CheckedAssignment(Model):
    revision: int
    fits: bool
    errors: list[AssignmentError] = []
    left: list[Left] = []
    downgraded: list[AffectedJob] = []
    restored: list[AffectedJob] = []
    shortfalls: list[Shortfall] = []
    problems: list[Oddity] = []


class PhysicalPlace(Model):
    address: str
    node: str | None = None


class VirtualCell(Model):
    address: str
    type: str
    gpus: int
    pin: str | None = None
    state: str
    used: int = 0
    bad: int = 0
    lent: int = 0
    physical: PhysicalPlace | None = None  # None: it gets its place when it is used
    children: list[VirtualCell] | None = None
    job: CellJob | None = None


class OwnedType(Model):
    type: str
    kind: str = ""
    words: str = ""
    gpus: int
    owned: int
    used: int
    free: int
    bad: int = 0
    missing: int = 0
    borrowed_out: int = 0


class VcChain(Model):
    chain: str
    gpu_model: str
    types: list[OwnedType] = []
    cells: list[VirtualCell] = []
    more: int = 0


class VcCells(Model):
    chains: list[VcChain] = []
    borrowed_in: int = 0
    shortfalls: list[Shortfall] = []


class Reserved(Model):
    start: datetime
    nodes: list[str] = []


class RunningJob(Model):
    job: JobSummary
    expected_end: datetime | None = None
    opportunistic: bool = False
    preemptible: bool = True


class WaitingJob(Model):
    position: int
    job: JobSummary
    needs_words: str = ""
    reserved: Reserved | None = None
    expected_start: datetime | None = None
    reason: Reason | None = None


class VcQueue(Model):
    """`running` is told on the first page."""

    running: list[RunningJob] = []
    waiting: list[WaitingJob] = []
    next: str | None = None


class UseSeries(Model):
    points: list[list[float]] = []  # [t, owned, used, borrowed, lent, bad, waiting] in GPUs


class VcHistory(Model):
    step_s: int
    models: dict[str, UseSeries] = {}


class ForecastJob(Model):
    """`id`, `name` and `owner` are None for a job that you may not see."""

    id: str | None = None
    name: str | None = None
    owner: str | None = None
    virtual_cluster: str
    gpus: int
    tasks: int
    what: str


class LosingVc(Model):
    name: str
    loses: dict[str, int] = {}


class NodeForecast(Model):
    jobs: list[ForecastJob] = []
    virtual_clusters: list[LosingVc] = []
