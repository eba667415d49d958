"""The HiveD file that may say how cells are laid out: checked, imported, exported, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from django.core.exceptions import ValidationError
from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.cells import checking, hived
from skep_platform.cells.assignment import Assignment, Error
from skep_platform.cells.checking import Verdict
from skep_platform.cells.services import fitting, hold
from skep_platform.cluster import layouts
from skep_platform.core.events import record
from skep_platform.scheduling import read_inventory
from skep_platform.tenancy import claims
from skep_platform.tenancy import services as tenancy
from skep_platform.tenancy.models import NAME
from skep_scheduler import facts, inventory

MAX_TYPE = 200  # characters, as the columns of claims have them


@dataclass(frozen=True, slots=True)
class File:
    """A HiveD file, read. `owned` is what it says of virtual clusters, if that was asked for."""

    data: dict[str, object] = field(default_factory=dict)
    owned: Assignment | None = None
    errors: tuple[Error, ...] = ()


def check(text: str, *, assign: bool) -> Verdict:
    """What `put` would do, or all that is wrong with the file."""
    return _check(layouts.current().revision, _read(text, assign))


def put(user: User, text: str, *, assign: bool) -> Verdict:
    """From now on nodes that the file names are laid out as it says; with `assign` virtual
    clusters own what it says, and those that are missing are made. Raises DoesNotFit with all
    errors, and Conflict `revision_stale` when someone else was faster."""
    revision, file = layouts.current().revision, _read(text, assign)
    verdict = fitting(_check(revision, file))
    with transaction.atomic():
        hold(revision)
        if file.owned is not None:
            _assign(user, file.owned)
        _store(user, text, "cells.imported", "A HiveD file says from now on how cells lie.")
    return verdict | {"revision": layouts.current().revision}


def delete(user: User) -> None:
    """Back to what the agents tell. Claims stay, as far as there are such cells."""
    with transaction.atomic():
        if layouts.lock().text:
            _store(user, "", "cells.file_deleted", "Cells lie as the nodes report from now on.")


def export() -> str:
    """The present configuration as a file, whether one was imported or not."""
    now = read_inventory.inventory(read_inventory.nodes().values())
    return hived.write(inventory.to_hived(now))


def _read(text: str, assign: bool) -> File:
    data, errors = hived.read(text)
    if errors:
        return File(errors=tuple(errors))
    if not isinstance(data.get("physicalCluster"), dict):
        message = "physicalCluster is missing."
        return File(errors=(Error("layout_invalid", message, "physicalCluster", {}),))
    try:
        told = inventory.from_hived(data, tuple(read_inventory.nodes().values()))
    except inventory.ConfigError as error:
        return File(errors=tuple(_error(problem) for problem in error.problems))
    if not assign:
        return File(data)
    owned = Assignment(
        tuple(facts.VirtualCluster(name, mine) for name, mine in sorted(told.claims.items())),
        told.pins,
    )
    return File(data, owned, tuple(_unusable(owned)))


def _check(revision: int, file: File) -> Verdict:
    if file.errors:
        return checking.refused(revision, [checking.shown(error) for error in file.errors])

    def change(now: facts.Inventory) -> facts.Inventory:
        owned = file.owned or Assignment(now.virtual_clusters, now.pins)
        vcs, pins = owned.virtual_clusters, owned.pins
        return replace(now, layout=file.data, virtual_clusters=vcs, pins=pins)

    return checking.check(revision, change)


def _assign(user: User, owned: Assignment) -> None:
    known = claims.lock()
    for vc in owned.virtual_clusters:
        if vc.name not in known:
            tenancy.create(user, vc.name)
    claims.replace(user, owned.virtual_clusters, owned.pins)


def _store(user: User, text: str, kind: str, message: str) -> None:
    layouts.changed(text=text)
    record("cells", "", kind, message, actor=user.get_username(), bytes=len(text))


def _error(problem: inventory.Problem) -> Error:
    return Error("layout_invalid", f"{problem.path} {problem.message}.", problem.path, {})


def _unusable(owned: Assignment) -> Iterator[Error]:
    """Names that HiveD takes and we do not."""
    for vc in owned.virtual_clusters:
        if not _is_name(vc.name):
            yield _bad_name("virtual cluster", vc.name, "virtualClusters")
    for pin in owned.pins:
        if not _is_name(pin.name):
            yield _bad_name("pinned cell", pin.name, "physicalCluster.physicalCells")
    for cell_type in sorted(_types(owned)):
        if len(cell_type) > MAX_TYPE or not cell_type.isprintable():
            yield _bad_name("cell type", cell_type, "physicalCluster.cellTypes")


def _types(owned: Assignment) -> set[str]:
    types = {pin.cell_type for pin in owned.pins} | {pin.node for pin in owned.pins}
    claimed = [claim for vc in owned.virtual_clusters for claim in vc.claims]
    return types | {c.chain for c in claimed} | {c.cell_type for c in claimed}


def _bad_name(what: str, name: str, path: str) -> Error:
    message = f"{name[:100]!r} cannot be the name of a {what}: use letters, digits, '-' and '_'."
    return Error("name_invalid", message, path, {"name": name[:100]})


def _is_name(name: str) -> bool:
    try:
        NAME(name)
    except ValidationError:
        return False
    return True
