"""Names for the jobs on cells, where the caller may see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from skep_platform.jobs import queries as jobs

Row = dict[str, Any]  # a cell as REST shows it


def fill_in(user: Any, cells: Iterable[Row]) -> None:
    """Each leaf's `job`, an id till now, becomes {id, name}; or null for one that the caller may
    not see. One query."""
    leaves = [leaf for cell in cells for leaf in _with_job(cell)]
    ids = {leaf["job"] for leaf in leaves}
    names = jobs.names_for(user, ids)
    known = {pk: {"id": pk, "name": name} for pk, name in names.items()}
    for leaf in leaves:
        leaf["job"] = known.get(leaf["job"])


def _with_job(cell: Row) -> Iterator[Row]:
    if cell.get("job"):
        yield cell
    for child in cell["children"] or ():
        yield from _with_job(child)
