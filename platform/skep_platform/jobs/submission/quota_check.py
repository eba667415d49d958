"""Whether a virtual cluster owns what a job asks for: by count, by cells, or as a pinned cell."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

from skep_jobfile import Issue, JobFile, Path
from skep_jobfile.demands import PLACES
from skep_platform.core import ports
from skep_platform.core.bulk import fetch
from skep_platform.core.ports import CellSize
from skep_platform.tenancy.models import PinnedCell, VirtualCluster
from skep_scheduler.inventory import gpu_model

VC_PATH: Path = ("defaults", "virtualCluster")
MAX_NAMES_LISTED = 20  # names that are listed with an unknown one


def issues(
    job: JobFile, vc: VirtualCluster, models: Collection[str], *, fresh: bool = False
) -> list[Issue]:
    """Return why the virtual cluster does not own what the job asks for. `models` are the GPU
    models of the cluster's nodes; `fresh`: with the sizes that cells have now."""
    types = sizes(fresh=fresh) if _names_cells(job) else {}
    found = [*_unknown_names(job, models, types), *_wrong_counts(job, types)]
    if found or not job.gpus or job.opportunistic:
        return found
    return [*(_against_pin(job, vc) if job.pinned_cell else _against_claims(job, vc, types))]


FRESH_S = 10.0
_remembered: tuple[float, Mapping[str, CellSize]] = (-FRESH_S, {})


def sizes(*, fresh: bool = False) -> Mapping[str, CellSize]:
    """Return the sizes of all cell types, at most FRESH_S seconds old unless `fresh`."""
    global _remembered
    if fresh or time.monotonic() - _remembered[0] > FRESH_S:
        _remembered = (time.monotonic(), ports.cell_sizes.call())
    return _remembered[1]


def _names_cells(job: JobFile) -> bool:
    return bool(job.extras.hived_scheduler.task_roles or job.extras.skep.within_one_cell)


def _unknown_names(
    job: JobFile, models: Collection[str], types: Mapping[str, CellSize]
) -> Iterator[Issue]:
    """Yield names that nothing has; while there is no node, no name can be checked."""
    # Only a leaf is a SKU: a job that names a larger cell here would wait for ever.
    leaves = {*models, *(size.leaf_type for size in types.values())}
    for role, demand in job.extras.hived_scheduler.task_roles.items():
        if demand.sku_type and leaves and gpu_model(demand.sku_type) not in leaves:
            path: Path = (*PLACES, role, "skuType")
            yield _unknown("sku_type", "GPU model or SKU", demand.sku_type, leaves, path)
        for key, name in (
            ("cellType", demand.cell_type),
            ("within" if demand.within else "withinOneCell", demand.cell),
        ):
            if name and types and name not in types:
                yield _unknown("cell_type", "cell type", name, types, (*PLACES, role, key))
    whole = job.extras.skep.within_one_cell
    if whole and types and whole not in types:
        path = ("extras", "skep", "withinOneCell")
        yield _unknown("cell_type", "cell type", whole, types, path)


def _unknown(code: str, what: str, name: str, known: Collection[str], path: Path) -> Issue:
    near = get_close_matches(name, list(known), n=3, cutoff=0.5)
    listed = sorted(known)[:MAX_NAMES_LISTED]
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There is {', '.join(listed)}."
    message = f"There is no {what} named {name}. {hint if known else 'There is none at all.'}"
    return Issue(f"unknown_{code}", message, path, details={"name": name, "known": listed})


def _wrong_counts(job: JobFile, types: Mapping[str, CellSize]) -> Iterator[Issue]:
    """Check that a role that asks for cells asks for as many GPUs as they have."""
    for name, role in job.task_roles.items():
        demand, gpus = job.demand_of(name), role.resource_per_instance.gpu
        size = types.get(demand.cell_type or "")
        if size is None or demand.cells * size.gpus == gpus:
            continue
        message = (
            f"{demand.cells} x {demand.cell_type} have {demand.cells * size.gpus} GPUs, "
            f"resourcePerInstance.gpu says {gpus}."
        )
        details = {"needs": gpus, "cells": demand.cells, "gpus_of_cell": size.gpus}
        path: Path = ("taskRoles", name, "resourcePerInstance", "gpu")
        yield Issue("gpus_of_cells", message, path, details=details)


def _against_pin(job: JobFile, vc: VirtualCluster) -> Iterator[Issue]:
    pins = dict(PinnedCell.objects.filter(vc=vc).values_list("name", "cell_type"))
    roles = job.extras.hived_scheduler.task_roles.items()
    role = next(name for name, demand in roles if demand.pinned_cell_id)
    path: Path = (*PLACES, role, "pinnedCellId")
    if job.pinned_cell not in pins:
        yield _unknown("pinned_cell", f"pinned cell of {vc.name}", job.pinned_cell, pins, path)
        return
    size = sizes().get(pins[job.pinned_cell])
    needs = _needs_at_once(job)
    if size is not None and needs > size.gpus:
        message = (
            f"The job needs {needs} GPUs, the pinned cell {job.pinned_cell} has {size.gpus} x "
            f"{size.leaf_type}. Ask for fewer, or leave pinnedCellId out."
        )
        details = {"needs": needs, "has": size.gpus, "pinned_cell": job.pinned_cell}
        yield Issue("exceeds_pinned_cell", message, path, details=details)


def _needs_at_once(job: JobFile) -> int:
    roles = job.task_roles.values()
    if job.incremental:
        return max(role.resource_per_instance.gpu for role in roles)
    return job.gpus


def _against_claims(
    job: JobFile, vc: VirtualCluster, types: Mapping[str, CellSize]
) -> Iterator[Issue]:
    """Check each part of the job, which lies on GPUs of one model, against what the VC owns."""
    owns = _owned(vc, types)
    if owns is None:
        return
    for model, (needs, path) in _parts(job, types).items():
        most = owns.get(model, 0) if model else max(owns.values(), default=0)
        if needs <= most:
            continue
        has = ", ".join(f"{n} x {name}" for name, n in sorted(owns.items())) or "none"
        message = (
            f"The job needs {needs} GPUs of {f'model {model}' if model else 'one model'}, "
            f"{vc.name} owns {has}. Ask for fewer, "
            "or submit it with jobPriorityClass oppo, which needs no quota."
        )
        details = {"needs": needs, "owns": owns, "virtual_cluster": vc.name}
        if model:
            details["gpu_model"] = model
        yield Issue("exceeds_quota", message, path, details=details)


def _parts(job: JobFile, types: Mapping[str, CellSize]) -> dict[str, tuple[int, Path]]:
    """Return the GPUs that are needed at once, by model ("": any one), and the field that asks for
    them: a role without a model goes with those of its affinity group. Of several groups without a
    model the largest counts."""
    groups: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    paths: dict[str, Path] = {"": VC_PATH}
    for name, role in job.task_roles.items():
        demand = job.demand_of(name)
        gpus = role.resource_per_instance.gpu * (1 if job.incremental else role.instances)
        model = _leaf_type(job.sku_of(name) or demand.cell_type or "", types)
        if demand.sku_type:
            paths.setdefault(model, (*PLACES, name, "skuType"))
        group = groups[name if job.incremental else demand.affinity_group_name or ""]
        group[model] += gpus
    total: dict[str, int] = defaultdict(int)
    for group in groups.values():
        _join_unnamed(group)
        for model, gpus in group.items():
            larger = job.incremental or not model
            total[model] = max(total[model], gpus) if larger else total[model] + gpus
    return {model: (gpus, paths.get(model, VC_PATH)) for model, gpus in total.items()}


def _join_unnamed(group: dict[str, int]) -> None:
    named = next((model for model in group if model), "")
    if named and "" in group:
        group[named] += group.pop("")


def _owned(vc: VirtualCluster, types: Mapping[str, CellSize]) -> dict[str, int] | None:
    """Return the GPUs that the VC owns, by the one name that a model has in the cells; None where
    the size of a cell that it owns is not known."""
    claims = vc.preloaded.claims if vc.preloaded else fetch(CLAIMS, {"vc": vc.pk})
    if any(cell_type for cell_type, _, _ in claims):
        types = types or sizes()
    owns: dict[str, int] = defaultdict(int)
    for cell_type, model, number in claims:
        size = types.get(cell_type)
        if cell_type and size is None:
            return None
        owns[_leaf_type(cell_type or model, types)] += number * (size.gpus if size else 1)
    return dict(owns)


def _leaf_type(name: str, types: Mapping[str, CellSize]) -> str:
    """Return the name in the cells of the GPUs of a cell type, or of a model as nodes report it."""
    if name in types:
        return types[name].leaf_type
    model = gpu_model(name)
    known = (size.leaf_type for size in types.values() if model in size.gpu_models)
    return next(known, model)


CLAIMS = """
SELECT '', gpu_model, gpus FROM tenancy_quota WHERE vc_id = %(vc)s AND gpus > 0
UNION ALL
SELECT cell_type, '', number FROM tenancy_vccell WHERE vc_id = %(vc)s AND number > 0
"""
