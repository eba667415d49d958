"""What holds between the fields that say where tasks shall lie, and who goes first; reads raw data,
as `references`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skep_jobfile.problems import Issue, Path
from skep_jobfile.raw import did_you_mean, section

PLACES: Path = ("extras", "hivedScheduler", "taskRoles")
SKEP: Path = ("extras", "skep")
EXCLUSIVE = (
    ("skuType", "pinnedCellId", "sku_and_pinned_cell", "A pinned cell has its own SKU type."),
    ("skuType", "cellType", "sku_and_cell_type", "A cell type has its own kind of GPU."),
    ("within", "withinOneCell", "within_twice", "Both mean the same."),
)


def check(data: dict[str, Any]) -> list[Issue]:
    roles = section(data, "taskRoles")
    found = section(data, *map(str, PLACES))
    demands = {name: section(found, name) for name in found}
    return [
        *_unknown_roles(demands, roles),
        *_contradictions(demands),
        *_cells_without_gpus(demands, roles),
        *_mixed_groups(demands),
        *_opportunistic_priority(data),
    ]


def _unknown_roles(demands: dict[str, Any], roles: dict[str, Any]) -> Iterator[Issue]:
    for name in demands:
        if name not in roles:
            message = f"There is no task role {name[:100]}.{did_you_mean(name, roles)}"
            yield Issue("unknown_task_role", message, (*PLACES, name), at_key=True)


def _contradictions(demands: dict[str, dict[str, Any]]) -> Iterator[Issue]:
    for name, demand in demands.items():
        for one, other, code, why in EXCLUSIVE:
            if demand.get(one) is not None and demand.get(other) is not None:
                message = f"Give {one} or {other}, not both. {why}"
                yield Issue(code, message, (*PLACES, name, other), at_key=True)
        if demand.get("cellNumber") and not demand.get("cellType"):
            message = "cellNumber needs a cellType: cells of which type?"
            yield Issue("cell_type_missing", message, (*PLACES, name, "cellNumber"), at_key=True)


def _cells_without_gpus(
    demands: dict[str, dict[str, Any]], roles: dict[str, Any]
) -> Iterator[Issue]:
    """GPUs are counted by resourcePerInstance; whether cells have as many, their owner knows."""
    for name, demand in demands.items():
        number = demand.get("cellNumber") or 1
        gpus = section(roles, name, "resourcePerInstance").get("gpu")
        if not demand.get("cellType") or type(gpus) is not int or type(number) is not int:
            continue
        if number > 0 and (gpus < 1 or gpus % number):
            cells = "1 cell" if number == 1 else f"{number} cells"
            message = (
                f"resourcePerInstance.gpu is {gpus}; it is the number of GPUs that {cells} of "
                f"{str(demand['cellType'])[:100]} have together."
            )
            path: Path = ("taskRoles", name, "resourcePerInstance", "gpu")
            yield Issue("gpus_of_cells", message, path)


def _mixed_groups(demands: dict[str, dict[str, Any]]) -> Iterator[Issue]:
    """A group lies in one chain, and a chain has one kind of GPU; who names none takes that."""
    first: dict[tuple[str, str], tuple[str, Any]] = {}
    for name, demand in demands.items():
        group = demand.get("affinityGroupName")
        for key in ("skuType", "pinnedCellId") if isinstance(group, str) else ():
            asked = demand.get(key)
            if asked is None:
                continue
            other, known = first.setdefault((str(group), key), (name, asked))
            if known != asked:
                message = (
                    f"{str(asked)[:100]} here, {str(known)[:100]} for {other[:100]}: roles of one "
                    f"affinity group ({str(group)[:100]}) have one {key}."
                )
                yield Issue("mixed_affinity_group", message, (*PLACES, name, key))


def _opportunistic_priority(data: dict[str, Any]) -> Iterator[Issue]:
    hived, skep = section(data, "extras", "hivedScheduler"), section(data, *map(str, SKEP))
    if hived.get("jobPriorityClass") == "oppo" and skep.get("priority") is not None:
        message = "An opportunistic job has no priority; take another jobPriorityClass."
        yield Issue("opportunistic_priority", message, (*SKEP, "priority"))
