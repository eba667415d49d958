"""What holds between the fields that say where tasks shall lie; reads raw data, as `references`."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from skep_platform.jobs.protocol.problems import Path, Trouble

HIVED: Path = ("extras", "hivedScheduler")
PLACES: Path = (*HIVED, "taskRoles")


def check(data: dict[str, Any]) -> list[Trouble]:
    roles, extras = _object(data.get("taskRoles")), _object(data.get("extras"))
    hived = _object(extras.get("hivedScheduler"))
    demands = {name: _object(d) for name, d in _object(hived.get("taskRoles")).items()}
    return [
        *_unknown_roles(demands, roles),
        *_contradictions(demands),
        *_cells_without_gpus(demands, roles),
        *_mixed_groups(demands),
        *_several_pins(demands, roles),
        *_opportunistic(demands, hived, _object(extras.get("skep"))),
    ]


def unused(data: dict[str, Any]) -> list[Trouble]:
    """Fields that are accepted and change nothing."""
    hived = _object(_object(data.get("extras")).get("hivedScheduler"))
    found = [
        Trouble("not_used", f"{key} has no effect here.", (*HIVED, key), at_key=True)
        for key in ("gangReleaseEnable", "ignoreK8sSuggestedNodes")
        if hived.get(key) is not None
    ]
    for role, demand in _object(hived.get("taskRoles")).items():
        if _object(demand).get("skuNum"):
            message = "skuNum has no effect here: resourcePerInstance says how many."
            found.append(Trouble("not_used", message, (*PLACES, role, "skuNum"), at_key=True))
    return found


def _unknown_roles(demands: dict[str, Any], roles: dict[str, Any]) -> Iterator[Trouble]:
    for name in demands:
        if name not in roles:
            near = get_close_matches(name[:100], [role[:100] for role in roles], n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            message = f"There is no task role {name[:100]}.{hint}"
            yield Trouble("unknown_task_role", message, (*PLACES, name), at_key=True)


EXCLUSIVE = (
    ("skuType", "pinnedCellId", "sku_and_pinned_cell", "A pinned cell has its own kind of GPU."),
    ("skuType", "cellType", "sku_and_cell_type", "A cell type has its own kind of GPU."),
    ("within", "withinOneCell", "within_twice", "Both mean the same."),
)


def _contradictions(demands: dict[str, dict[str, Any]]) -> Iterator[Trouble]:
    for name, demand in demands.items():
        for one, other, code, why in EXCLUSIVE:
            if demand.get(one) and demand.get(other):
                message = f"Give {one} or {other}, not both. {why}"
                yield Trouble(code, message, (*PLACES, name, other), at_key=True)
        if demand.get("cellNumber") and not demand.get("cellType"):
            message = "cellNumber needs a cellType: cells of which type?"
            yield Trouble("cell_type_missing", message, (*PLACES, name, "cellNumber"), at_key=True)


def _cells_without_gpus(
    demands: dict[str, dict[str, Any]], roles: dict[str, Any]
) -> Iterator[Trouble]:
    """GPUs are counted by resourcePerInstance; whether cells have as many, their owner knows."""
    for name, demand in demands.items():
        number, gpus = demand.get("cellNumber") or 1, _gpus(roles.get(name))
        if not demand.get("cellType") or gpus is None or type(number) is not int or number < 1:
            continue
        if gpus < 1 or gpus % number:
            message = (
                f"resourcePerInstance.gpu is {gpus}; it is the number of GPUs that "
                f"{number} {'cells' if number > 1 else 'cell'} of {str(demand['cellType'])[:100]} "
                "have together."
            )
            path: Path = ("taskRoles", name, "resourcePerInstance", "gpu")
            yield Trouble("gpus_of_cells", message, path)


def _mixed_groups(demands: dict[str, dict[str, Any]]) -> Iterator[Trouble]:
    """A group lies in one chain, and a chain has one kind of GPU."""
    first: dict[tuple[str, str], tuple[str, Any]] = {}
    for name, demand in demands.items():
        group = demand.get("affinityGroupName")
        for key in ("skuType", "pinnedCellId") if isinstance(group, str) else ():
            asked = demand.get(key)
            if not asked:
                continue
            other, known = first.setdefault((str(group), key), (name, asked))
            if known != asked:
                message = (
                    f"{str(asked)[:100]} here, {str(known)[:100]} for {other[:100]}: roles of one "
                    f"affinity group ({str(group)[:100]}) have one {key}."
                )
                yield Trouble("mixed_affinity_group", message, (*PLACES, name, key))


def _several_pins(demands: dict[str, dict[str, Any]], roles: dict[str, Any]) -> Iterator[Trouble]:
    """A job lies in one pinned cell as a whole, but for tasks without GPUs."""
    pinned = {name: d["pinnedCellId"] for name, d in demands.items() if d.get("pinnedCellId")}
    if not pinned:
        return
    first, pin = next(iter(pinned.items()))
    for name, role in roles.items():
        own = pinned.get(name)
        if own == pin or (own is None and not _gpus(role)):
            continue
        if own is not None:
            message = f"A job lies in one pinned cell; {first[:100]} names {str(pin)[:100]}."
            yield Trouble("several_pinned_cells", message, (*PLACES, name, "pinnedCellId"))
        else:
            message = (
                f"A job lies in its pinned cell as a whole: {first[:100]} names {str(pin)[:100]}, "
                f"{name[:100]} names none. Give it the same pinnedCellId."
            )
            yield Trouble("several_pinned_cells", message, ("taskRoles", name), at_key=True)


def _opportunistic(
    demands: dict[str, dict[str, Any]], hived: dict[str, Any], skep: dict[str, Any]
) -> Iterator[Trouble]:
    if hived.get("jobPriorityClass") != "oppo":
        return
    if skep.get("priority") is not None:
        message = "An opportunistic job has no priority; take another jobPriorityClass."
        yield Trouble("opportunistic_priority", message, ("extras", "skep", "priority"))
    for name, demand in demands.items():
        if demand.get("pinnedCellId"):
            message = "A pinned cell is for guaranteed jobs; take another jobPriorityClass."
            path: Path = (*PLACES, name, "pinnedCellId")
            yield Trouble("opportunistic_pinned_cell", message, path)


def _gpus(role: Any) -> int | None:
    asked = _object(_object(role).get("resourcePerInstance")).get("gpu")
    return asked if type(asked) is int else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
