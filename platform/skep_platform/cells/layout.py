"""The HiveD file that may say how cells are laid out: checked, imported, exported, deleted."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from ruamel.yaml import YAML

from skep_jobfile import InvalidJobFile, json_text, yaml_text
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cells.services import (
    Assignment,
    Error,
    Verdict,
    check_change,
    fitting,
    hold,
    refused,
    shown,
)
from skep_platform.cluster.services import cell_layout, cells_changed, lock_cell_layout
from skep_platform.core.events import record
from skep_platform.scheduling import read_facts
from skep_platform.tenancy import claims
from skep_platform.tenancy import services as tenancy
from skep_platform.tenancy.models import NAME
from skep_scheduler import inventory
from skep_scheduler.model import facts

MAX_TYPE = 200  # characters, as the columns of claims have them
MAX_DEPTH = 64
MAX_VALUES = 500_000


@dataclass(frozen=True, slots=True)
class File:
    """A HiveD file, read. `owned` is what it says of virtual clusters, if that was asked for."""

    data: dict[str, object] = field(default_factory=dict)
    owned: Assignment | None = None
    errors: tuple[Error, ...] = ()


def check(text: str, *, assign: bool) -> Verdict:
    """Return what `put` would do, or all that is wrong with the file."""
    return _check(cell_layout().revision, _read(text, assign))


def put(user: User, text: str, *, assign: bool) -> Verdict:
    """Lay the nodes that the file names out as it says; with `assign`, also give virtual clusters
    what it says, and create those that are missing. Raises DoesNotFit with all errors, and Conflict
    `revision_stale` if the claims were changed meanwhile."""
    revision, file = cell_layout().revision, _read(text, assign)
    verdict = fitting(_check(revision, file))
    with transaction.atomic():
        hold(revision)
        if file.owned is not None:
            _assign(user, file.owned)
        _store(user, text, "cells.imported", "A HiveD file says from now on how cells lie.")
    return verdict | {"revision": cell_layout().revision}


def delete(user: User) -> None:
    """Lay nodes out as their agents report them. Claims stay as far as there are such cells."""
    with transaction.atomic():
        if lock_cell_layout().text:
            _store(user, "", "cells.file_deleted", "Cells lie as the nodes report from now on.")


def export() -> str:
    """Return the present configuration as a file, whether one was imported or not."""
    now = read_facts.inventory(read_facts.nodes().values())
    return write_hived(inventory.to_hived(now))


def _read(text: str, assign: bool) -> File:
    data, errors = read_hived(text)
    if errors:
        return File(errors=tuple(errors))
    if not isinstance(data.get("physicalCluster"), dict):
        message = "physicalCluster is missing."
        return File(errors=(Error("layout_invalid", message, "physicalCluster", {}),))
    try:
        parsed = inventory.from_hived(data, tuple(read_facts.nodes().values()))
    except inventory.ConfigError as error:
        return File(errors=tuple(_error(problem) for problem in error.problems))
    if not assign:
        return File(data)
    owned = Assignment(
        tuple(facts.VirtualCluster(name, mine) for name, mine in sorted(parsed.claims.items())),
        parsed.pins,
    )
    return File(data, owned, tuple(_unusable(owned)))


def _check(revision: int, file: File) -> Verdict:
    if file.errors:
        return refused(revision, [shown(error) for error in file.errors])

    def change(now: facts.Inventory) -> facts.Inventory:
        owned = file.owned or Assignment(now.virtual_clusters, now.pins)
        vcs, pins = owned.virtual_clusters, owned.pins
        return replace(now, layout=file.data, virtual_clusters=vcs, pins=pins)

    return check_change(revision, change)


def _assign(user: User, owned: Assignment) -> None:
    known = claims.lock()
    for vc in owned.virtual_clusters:
        if vc.name not in known:
            tenancy.create(user, vc.name)
    claims.replace(user, owned.virtual_clusters, owned.pins)


def _store(user: User, text: str, kind: str, message: str) -> None:
    before = lock_cell_layout().text
    cells_changed(text=text)
    record("cells", "", kind, message, actor=user.get_username(), bytes=len(text))
    audit.record(
        "cells.layout.update" if text else "cells.layout.delete",
        "cells",
        before={"bytes": len(before), "sha256": _sha256(before)},
        after={"bytes": len(text), "sha256": _sha256(text)},
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def _error(problem: inventory.Problem) -> Error:
    return Error("layout_invalid", f"{problem.path} {problem.message}.", problem.path, {})


def _unusable(owned: Assignment) -> Iterator[Error]:
    """Yield an error for each name that HiveD accepts and Skep does not."""
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


def read_hived(text: str) -> tuple[dict[str, Any], list[Error]]:
    """Return the data of a file (YAML 1.2 or JSON, bounded), and all that is wrong with it."""
    if not text.strip():
        return {}, [Error("empty", "The file is empty.", "", {"line": 1, "column": 1})]
    try:
        data = _json(text)
        if data is None:
            data = yaml_text.construct(yaml_text.compose(text, MAX_DEPTH, MAX_VALUES))
    except InvalidJobFile as error:
        return {}, [
            Error(p.code, p.message, p.path, {"line": p.line, "column": p.column})
            for p in error.problems
        ]
    if not isinstance(data, dict):
        message = "A HiveD file is an object with physicalCluster and virtualClusters."
        return {}, [Error("not_an_object", message, "", {"line": 1, "column": 1})]
    return data, []


def write_hived(data: Mapping[str, Any]) -> str:
    """Return plain data as the text of a HiveD file."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = io.StringIO()
    yaml.dump(dict(data), text)
    return text.getvalue()


def _json(text: str) -> Any:
    """Return the data of JSON, None for anything else: it may be YAML in braces. JSON takes
    milliseconds where YAML takes minutes."""
    if text.lstrip()[:1] != "{":
        return None
    try:
        return json_text.load(text)
    except (ValueError, RecursionError):
        return None
