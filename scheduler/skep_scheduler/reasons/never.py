"""Causes that waiting cannot cure."""

from __future__ import annotations

from collections.abc import Iterator

from skep_scheduler.gang import Demand, gpus_by_model
from skep_scheduler.plan import Reason
from skep_scheduler.reasons import words
from skep_scheduler.reasons.case import Case, task_numbers
from skep_scheduler.reasons.codes import Code
from skep_scheduler.resources import Resources


def no_such_model(case: Case) -> Iterator[Reason]:
    models = case.stocks.gpus_by_model
    for model, needs in gpus_by_model(case.demands):
        if model not in models:
            there_are = words.listing(list(models)) or "no GPUs at all"
            message = f"No node has a healthy {model}; the cluster has {there_are}."
            details = {"gpu_model": model, "needs": needs, "cluster": models}
            yield Reason(Code.NO_GPU_MODEL, message, details)


def quota_too_small(case: Case) -> Iterator[Reason]:
    for model, needs in gpus_by_model(case.demands):
        if case.account is not None and needs > (owns := case.account.owns.get(model, 0)):
            message = (
                f"Needs {needs} {model}, but {case.vc} owns {owns or 'none'}: ask for fewer, have "
                "the quota raised, or submit it as opportunistic."
            )
            details = {"vc": case.vc, "gpu_model": model, "needs": needs, "owns": owns}
            yield Reason(Code.NEVER_FITS_QUOTA, message, details)


def task_too_large(case: Case) -> Iterator[Reason]:
    for demand in case.demands:
        stock = case.full(demand.model)
        if stock.count and not stock.room_for(demand.need, 1):
            largest = stock.largest(demand.need)
            needs = words.amount(demand.model, demand.need)
            message = f"Each task needs {needs}; {_largest(demand, largest)}."
            details = {**task_numbers(demand, 0), "largest_node": largest._asdict()}
            yield Reason(Code.NEVER_FITS_NODE, message, details)


def _largest(demand: Demand, largest: Resources) -> str:
    """The first amount that no node has, among the nodes that have those before it."""
    need = demand.need
    if largest.gpus < need.gpus:
        return f"the largest node has {largest.gpus} {demand.model}"
    if largest.cpu_millis < need.cpu_millis:
        such = words.amount(demand.model, need._replace(cpu_millis=0, memory_mb=0))
        return f"the largest node{such and f' with {such}'} has {words.cpus(largest.cpu_millis)}"
    such = words.amount(demand.model, need._replace(memory_mb=0))
    return f"the largest node{such and f' with {such}'} has {words.memory(largest.memory_mb)}"


def gang_too_large(case: Case) -> Iterator[Reason]:
    for model, needs in gpus_by_model(case.demands):
        if needs > (total := case.full(model).gpus):
            message = f"Needs {needs} {model}, but the whole cluster has {total}."
            details = {"gpu_model": model, "needs": needs, "total": total}
            yield Reason(Code.NEVER_FITS_CLUSTER, message, details)
    for demand in case.demands:
        stock = case.full(demand.model)
        room = stock.room_for(demand.need, demand.tasks)
        if stock.count and room < demand.tasks:
            needs_each = words.amount(demand.model, demand.need)
            message = (
                f"Needs {words.tasks(demand.tasks)} of {needs_each}; the whole cluster, were it "
                f"idle, has room for {room}."
            )
            details = {**task_numbers(demand, room), "total": stock.gpus}
            yield Reason(Code.NEVER_FITS_CLUSTER, message, details)
