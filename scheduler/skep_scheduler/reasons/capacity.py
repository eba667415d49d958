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
        if not case.open(demand.model).count:
            closed = case.full(demand.model).count
            numbers: dict[str, object] = {"gpu_model": demand.model, "closed_nodes": closed}
            yield Reason(Code.NO_NODES, _closed(demand.model, closed), numbers)


def _closed(model: str | None, closed: int) -> str:
    if not closed:
        return "The cluster has no nodes."
    with_model = "" if model is None else f" with {model}"
    are = "is" if closed == 1 else "are"
    return f"No node is open: {words.count(closed, 'node')}{with_model} {are} offline or cordoned."


def too_few_free(case: Case) -> Iterator[Reason]:
    for model, needs in gpus_by_model(case.demands):
        free = case.free(model)
        if free.gpus < needs:
            is_free = "are free" if free.gpus > 1 else "is free"
            where = f" ({words.pieces(free.pieces)})" if free.gpus else ""
            message = (
                f"Needs {needs} {model}; {free.gpus or 'none'} {is_free}{where}"
                f"{_elsewhere(case, model)}."
            )
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
    kinds = [f"{words.tasks(d.tasks)} of {words.amount(d.model, d.need)}" for d in case.demands]
    message = f"Needs {' plus '.join(kinds)}: each would find room, but not all at once."
    details: dict[str, object] = {
        "kinds": [task_numbers(demand, demand.tasks) for demand in case.demands]
    }
    for model, needs in gpus_by_model(case.demands)[:1]:
        details |= _gpu_numbers(case, model, needs)
    return Reason(Code.NO_CAPACITY, message, details)


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
        f"but there is {what} for {f'only {room}' if room else 'none'}."
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
        "opportunistic": case.lent.get(model, 0),  # held without quota
    }


def _elsewhere(case: Case, model: str) -> str:
    """GPUs that might come back: on closed nodes, or lent to opportunistic jobs."""
    numbers = _gpu_numbers(case, model, 0)
    closed, lent = numbers["closed"], numbers["opportunistic"]
    parts = [f"on offline or cordoned nodes: {closed}"] if closed else []
    if lent and case.account is not None:
        parts += [f"lent to opportunistic jobs: {lent}"]
    return "".join(f"; {part}" for part in parts)
