"""The quota would do, but there is no room on the nodes at present."""

from __future__ import annotations

from collections.abc import Iterator

from skep_scheduler.gang import Demand, gpus_by_model
from skep_scheduler.plan import Reason
from skep_scheduler.reasons import words
from skep_scheduler.reasons.case import Case, task_numbers
from skep_scheduler.reasons.codes import Code
from skep_scheduler.resources import NOTHING


def no_open_node(case: Case) -> Iterator[Reason]:
    for demand in case.demands:
        closed = case.full(demand.model).count
        if not case.open(demand.model).count:
            nodes = words.count(closed, "node")
            which = nodes if demand.model is None else f"{nodes} with {demand.model}"
            message = f"No node is open: {which} offline or cordoned."
            numbers: dict[str, object] = {"gpu_model": demand.model, "closed_nodes": closed}
            yield Reason(Code.NO_NODES, message, numbers)


def too_few_free(case: Case) -> Iterator[Reason]:
    for model, needs in gpus_by_model(case.demands):
        free = case.free(model)
        if free.gpus < needs:
            are_free = "none is free" if not free.gpus else f"{free.gpus} are free"
            where = f" ({words.pieces(free.pieces)})" if free.gpus else ""
            message = f"Needs {needs} {model}; {are_free}{where}{_elsewhere(case, model)}."
            yield Reason(Code.NO_CAPACITY, message, _gpu_numbers(case, model, needs))


def no_room_for_tasks(case: Case) -> Iterator[Reason]:
    """Enough GPUs are free, but in too small pieces or without CPU and memory beside them."""
    for demand in case.demands:
        free = case.free(demand.model)
        room = free.room_for(demand.need, demand.tasks)
        if room == demand.tasks:
            continue
        if free.room_for(NOTHING._replace(gpus=demand.need.gpus), demand.tasks) < demand.tasks:
            yield _fragmented(case, demand, room)
        elif free.room_for(demand.need._replace(memory_mb=0), demand.tasks) < demand.tasks:
            yield _shortage(case, demand, room, Code.CPU_SHORTAGE, "CPU")
        else:
            yield _shortage(case, demand, room, Code.MEMORY_SHORTAGE, "memory")


def no_room_together(case: Case) -> Reason:
    """The last resort: each kind of task would find room, but not all of them at once."""
    kinds = words.listing(
        [f"{words.tasks(d.tasks)} of {words.amount(d.model, d.need)}" for d in case.demands]
    )
    message = f"Needs {kinds}: each of these would find room, but not all at once."
    numbers = [_gpu_numbers(case, model, needs) for model, needs in gpus_by_model(case.demands)[:1]]
    roles = [task_numbers(demand, demand.tasks) for demand in case.demands]
    return Reason(Code.NO_CAPACITY, message, {**(numbers[0] if numbers else {}), "roles": roles})


def _fragmented(case: Case, demand: Demand, room: int) -> Reason:
    free, model = case.free(demand.model), demand.model
    tasks, gpus = words.tasks(demand.tasks), demand.need.gpus
    message = (
        f"Needs {tasks} of {gpus} {model}; the {free.gpus} free GPUs lie "
        f"{words.pieces(free.pieces)}: room for {room}{_elsewhere(case, str(model))}."
    )
    numbers = _gpu_numbers(case, str(model), demand.tasks * gpus)
    return Reason(Code.NO_CAPACITY, message, {**numbers, **task_numbers(demand, room)})


def _shortage(case: Case, demand: Demand, room: int, code: Code, what: str) -> Reason:
    free = case.free(demand.model)
    beside = f"; enough {demand.model} are free" if demand.model else ""
    message = (
        f"Needs {words.tasks(demand.tasks)} of {words.amount(demand.model, demand.need)}{beside}, "
        f"but there is {what} for only {room}."
    )
    largest = free.largest(demand.need)._asdict()
    details = {**task_numbers(demand, room), "free": free.gpus, "largest_free": largest}
    return Reason(code, message, details)


def _gpu_numbers(case: Case, model: str, needs: int) -> dict[str, object]:
    free = case.free(model)
    return {
        "gpu_model": model,
        "needs": needs,
        "free": free.gpus,
        "free_on_nodes": free.count,
        "pieces": [list(piece) for piece in free.pieces],  # [GPUs on a node, number of nodes]
        "total": case.full(model).gpus,
        "closed": case.full(model).gpus - case.open(model).gpus,  # on offline, cordoned nodes
        "opportunistic": case.accounts.opportunistic[model],  # held without quota
    }


def _elsewhere(case: Case, model: str) -> str:
    """GPUs that might come back: on closed nodes, or lent to opportunistic jobs."""
    numbers = _gpu_numbers(case, model, 0)
    closed, lent = numbers["closed"], numbers["opportunistic"]
    parts = [f"{closed} more are offline or cordoned"] if closed else []
    if lent and case.account is not None:
        parts += [f"{lent} are lent to opportunistic jobs"]
    return "".join(f"; {part}" for part in parts)
