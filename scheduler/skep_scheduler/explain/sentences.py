"""One sentence for the owner of a gang that waits. No clock is in it: "in about 25 min".

It follows from the code and the details of a reason alone, so that it can be written again for each
reader: `told_at` is the moment that its times count from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skep_scheduler.explain import standings, words
from skep_scheduler.explain.job_names import ANOTHER, Details, Names, jobs
from skep_scheduler.model import Code

NO_NAMES: Names = {}


def sentence(code: str, details: Details, names: Names = NO_NAMES) -> str:
    """For a reader who may know these `names` of jobs, by their ids; of others it says "another
    job"."""
    cause = CAUSES.get(code, _plainly)(details, names)
    parts = [cause, _standing(code, details), _ahead(details), _start(details)]
    demotion = f"{details['demotion']} " if details.get("demotion") else ""
    return demotion + "; ".join(filter(None, parts)) + "."


def _standing(code: str, details: Details) -> str:
    """Where it stands under its policy, if that is what it waits for."""
    if code not in ABOUT_ORDER or not details.get("standing"):
        return ""
    return standings.sentence(details["standing"], details["told_at"])


ABOUT_ORDER = {Code.VC_BUSY, Code.HELD_BACK, Code.PREEMPTING, Code.VICTIMS_TOO_YOUNG}


def _plainly(details: Details, names: Names) -> str:
    return f"Needs {details['needs']['shape']}"


def _not_admitted(details: Details, names: Names) -> str:
    late = "Its deadline cannot be met without making another job late"
    if "earliest" not in details:
        return late
    return f"{late}: it could be done {_soon(details, 'earliest')}"


def _no_size(details: Details, names: Names) -> str:
    owned = f"{details['vc']} gives its {_owned(details)} to other jobs for now"
    return f"{owned}, which use them better or came first"


def _vc_busy(details: Details, names: Names) -> str:
    used = " ".join(filter(None, [_uses(details), _users(details, names)]))
    parts = [used, *_unavailable(details), _scattered(details)]
    state = words.listing([part for part in parts if part])
    owns = f"Needs {details['needs']['shape']}; {details['vc']} owns {_owned(details)}"
    return f"{owns}, {state}" if state else owns


def _scattered(details: Details) -> str:
    """There would be enough, if only numbers counted."""
    enough = details["free"] >= details["needs"]["gpus"]
    return "what is free is not together as asked" if enough else ""


def _cluster_busy(details: Details, names: Names) -> str:
    scattered = "what is idle is not together as asked" if _scattered(details) else ""
    parts = [_uses(details), *_unavailable(details), scattered]
    state = words.listing([part for part in parts if part])
    owns = f"Needs {details['needs']['shape']} that no job uses; the cluster has {_owned(details)}"
    return f"{owns}, {state}" if state else owns


def _never_fits_cluster(details: Details, names: Names) -> str:
    if "fits" in details:
        tasks = words.count(details["fits"], "such task")
        return f"Needs {details['needs']['shape']}, but all nodes together have space for {tasks}"
    has = f"{details['owns'] or 'no'} {details['model']}"
    return f"Needs {details['needs']['shape']}, but the whole cluster has {has}: ask for fewer"


def _bad_hardware(details: Details, names: Names) -> str:
    where = [word for cause, word in PLACES if details[cause]] or ["bad hardware"]
    return f"{_vc_busy(details, names)}; what is free is on {words.listing(where)}"


def _never_fits_vc(details: Details, names: Names) -> str:
    return (
        f"Needs {details['needs']['shape']}, but {details['vc']} owns {_owned(details)}: ask for "
        "fewer, have more given to it, or submit it as opportunistic"
    )


def _not_owned(details: Details, names: Names) -> str:
    return f"Needs {details['needs']['shape']}, of which {details['vc']} owns nothing"


def _unknown_type(details: Details, names: Names) -> str:
    return f"Needs {details['needs']['shape']}, which the cluster does not have"


def _unknown_vc(details: Details, names: Names) -> str:
    return f"There is no virtual cluster {details['vc']}"


def _unknown_pin(details: Details, names: Names) -> str:
    return f"{details['vc']} has no pinned cell {details['pin']}"


def _backoff(details: Details, names: Names) -> str:
    return f"It is tried again {_soon(details, 'until')}"


def _avoiding(details: Details, names: Names) -> str:
    nodes, until = (
        words.listing(details["avoids"][:3]),
        _soon(details, "until"),
    )
    return f"It failed on {nodes}: it waits for another node, and may go there again {until}"


def _maintenance(details: Details, names: Names) -> str:
    nodes, at = words.listing(details["closing"][:3]), _soon(details, "at")
    verb = "begins" if len(details["closing"]) == 1 else "begin"
    return f"Maintenance of {nodes} {verb} {at}, before it would be done"


def _preempting(details: Details, names: Names) -> str:
    leaving = details["leaving"]
    verb = "makes" if len(leaving) == 1 else "make"
    return f"Its cells are reserved; {jobs(leaving, names)} {verb} way for it"


def _too_young(details: Details, names: Names) -> str:
    who = jobs(details["victims"], names)
    at = _soon(details, "at")
    return f"Needs {details['needs']['shape']}; {who} may be preempted for it {at}"


def _cooling_down(details: Details, names: Names) -> str:
    until = _soon(details, "until")
    return f"What it had reserved was cancelled; it may preempt others again {until}"


def _held_back(details: Details, names: Names) -> str:
    by = names.get(details["by"], ANOTHER)
    if details["by_start"] is None and details.get("order"):
        return f"{by} comes first: no job behind it starts on what it could use"
    if details["by_start"] is None:
        return f"{by} has waited too long: no job behind it starts on what it could use"
    return f"It could start, but might delay {by}, which starts {_soon(details, 'by_start')}"


def _user_gpu_limit(details: Details, names: Names) -> str:
    asks, most, vc = details["asks"], details["most"], details["vc"]
    needs = f"needs {words.count(asks, 'GPU')}"
    if asks > most:
        may = "you may" if not details["owner"] else "a user may"
        return f"It {needs}, but {may} have {most} in {vc} at a time: ask for fewer, or a VC admin"
    holds = f"{_owner(details)} {details['holds']} of {words.count(most, 'GPU')}"
    return f"{holds} that a user may have in {vc} at a time, and it {needs}"


def _user_job_limit(details: Details, names: Names) -> str:
    most = words.count(details["most"], "job")
    return f"{_owner(details)} {details['holds']} of {most} that a user may run in {details['vc']}"


def _owner(details: Details) -> str:
    """The owner is "" where the sentence is for the owner."""
    return f"{details['owner']} runs" if details["owner"] else "You run"


def _lacks_resources(what: str) -> Callable[[Details, Names], str]:
    def cause(details: Details, names: Names) -> str:
        task, free = details["task"], details["largest_free"]
        return (
            f"Its cells are free, but on no node enough {what} with them: a task needs "
            f"{_size(task)}, and at most {_size(free)} are left on a node"
        )

    return cause


def _never_fits_node(details: Details, names: Names) -> str:
    task, node = details["task"], details["largest_node"]
    return f"A task needs {_size(task)}, but the largest node has {_size(node)}"


def _soon(details: Details, key: str) -> str:
    return words.soon(details[key] - details["told_at"])


def _size(amount: Mapping[str, int]) -> str:
    return f"{words.cpus(amount['cpu_millis'])} and {words.memory(amount['memory_mb'])}"


def _counts_nodes(details: Details) -> bool:
    return bool(details["needs"]["whole_nodes"] and details["nodes"]["owns"])


def _owned(details: Details) -> str:
    if _counts_nodes(details):
        return words.count(details["nodes"]["owns"], "node")
    return f"{details['owns'] or 'no'} {details['model']}"


def _uses(details: Details) -> str:
    used = details["nodes"]["used"] if _counts_nodes(details) else details["used"]
    return f"{used} {'is' if used == 1 else 'are'} used" if used else ""


def _users(details: Details, names: Names) -> str:
    holders, more = details["used_by"], details["more"]
    if not holders:
        return ""
    shown = [_user(holder, details["told_at"], names) for holder in holders[:MOST_USERS]]
    more += len(holders) - len(shown)
    if more:
        shown.append(words.count(more, "other"))
    return f"by {words.listing(shown)}"


MOST_USERS = 3


def _user(holder: Mapping[str, Any], now: float, names: Names) -> str:
    name, until = names.get(holder["gang"]), holder["until"]
    ends = None if until is None else f"ends {words.soon(until - now)}"
    if name is None:
        notes = ", ".join(filter(None, [words.count(holder["gpus"], "GPU"), ends]))
        return f"{ANOTHER} ({notes})"
    return f"{name} ({ends})" if ends else name


def _unavailable(details: Details) -> list[str]:
    """What cannot be used now and why: hardware that failed is no drained node."""
    if _counts_nodes(details):
        nodes = details["nodes"]
        return [
            f"{n} {one if n == 1 else more}"
            for cause, one, more in NODES_AWAY
            if (n := nodes[cause])
        ]
    return [
        f"{n} {'is' if n == 1 else 'are'} {word}"
        for cause, word in GPUS_AWAY
        if (n := details[cause])
    ]


GPUS_AWAY = (("bad", "bad"), ("cordoned", "on cordoned nodes"), ("offline", "on offline nodes"))
NODES_AWAY = (
    ("bad", "has bad GPUs", "have bad GPUs"),
    ("cordoned", "is cordoned", "are cordoned"),
    ("offline", "is offline", "are offline"),
)
PLACES = (("bad", "bad hardware"), ("cordoned", "cordoned nodes"), ("offline", "offline nodes"))


def _ahead(details: Details) -> str:
    ahead = details["ahead"]
    if not ahead:
        return ""
    order = f" ({details['order']})" if details.get("order") else ""
    return f"{words.count(ahead, 'job')} {'is' if ahead == 1 else 'are'} ahead{order}"


def _start(details: Details) -> str:
    start, idle = details["expected_start"], details["opportunistic_now"]
    parts = []
    if start is not None:
        parts.append(f"expected start {words.soon(start - details['told_at'])}")
    if idle:
        parts.append(
            "at once as opportunistic" if parts else "it could start at once as opportunistic"
        )
    return ", or ".join(parts)


CAUSES: dict[str, Callable[[Details, Names], str]] = {
    Code.NO_SIZE: _no_size,
    Code.NOT_ADMITTED: _not_admitted,
    Code.VC_BUSY: _vc_busy,
    Code.CLUSTER_BUSY: _cluster_busy,
    Code.BAD_HARDWARE: _bad_hardware,
    Code.NEVER_FITS_VC: _never_fits_vc,
    Code.NEVER_FITS_CLUSTER: _never_fits_cluster,
    Code.VC_OWNS_NOTHING: _not_owned,
    Code.LEAF_TYPE_NOT_OWNED: _not_owned,
    Code.UNKNOWN_LEAF_TYPE: _unknown_type,
    Code.UNKNOWN_CELL_TYPE: _unknown_type,
    Code.UNKNOWN_VC: _unknown_vc,
    Code.UNKNOWN_PINNED_CELL: _unknown_pin,
    Code.BACKOFF: _backoff,
    Code.NODE_EXCLUDED: _avoiding,
    Code.MAINTENANCE: _maintenance,
    Code.PREEMPTING: _preempting,
    Code.VICTIMS_TOO_YOUNG: _too_young,
    Code.COOLING_DOWN: _cooling_down,
    Code.HELD_BACK: _held_back,
    Code.USER_GPU_LIMIT: _user_gpu_limit,
    Code.USER_JOB_LIMIT: _user_job_limit,
    Code.CPU_BUSY: _lacks_resources("CPU"),
    Code.MEMORY_BUSY: _lacks_resources("memory"),
    Code.NEVER_FITS_NODE: _never_fits_node,
}
