"""The sentences of a job's events and reasons, as its owner reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from skep_platform.jobs.lifecycle.decisions import Retry
from skep_platform.jobs.lifecycle.diagnosing import Failed
from skep_scheduler.explain import standings, words
from skep_scheduler.model import Resize

if TYPE_CHECKING:
    from skep_platform.jobs.models import Job

Reason = dict[str, Any]  # {code, message, details}, as it is stored and shown
MAX_NODES_NAMED = 8
NO_NAMES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Ending:
    """How one task attempt ended, for a sentence."""

    failed: Failed
    state: str

    @property
    def code(self) -> str:
        return self.failed.error_code or "task_failed"

    @property
    def sentence(self) -> str:
        return f"Task {self.failed.role}-{self.failed.index} on {self.failed.node} {self._what}."

    @property
    def _what(self) -> str:
        one = self.failed
        said = f": {one.error_message.rstrip('.')}" if one.error_message else ""
        if one.oom_killed:
            return "was killed because it used more memory than it asked for" + said
        if one.exit_signal:
            return f"was ended by signal {one.exit_signal}{said}"
        if one.exit_code is not None:
            return f"exited with code {one.exit_code}{said}"
        if self.state == "LOST":
            return f"was lost{said}"
        return f"could not run ({one.error_code}){said}" if one.error_code else f"ended{said}"

    @property
    def details(self) -> dict[str, Any]:
        return {
            "role": self.failed.role,
            "index": self.failed.index,
            "node": self.failed.node,
            "exit_code": self.failed.exit_code,
            "signal": self.failed.exit_signal,
        }


def begin_time(begin: datetime | None) -> Reason | None:
    """Return why a job waits whose file has a `begin` in the future; None for any other."""
    if begin is None or begin <= datetime.now(UTC):
        return None
    message = f"Waits until {begin:%Y-%m-%d %H:%M} UTC, as its job file asks."
    return reason("begin_time", message, until=begin.timestamp())


def reason(code: str, message: str, **details: Any) -> Reason:
    return {"code": code, "message": message, "details": details}


def succeeded(tasks: int, ended_well: int) -> Reason:
    """Return the reason of a job whose completion policy is met."""
    if tasks == ended_well:
        message = "The task exited with code 0." if tasks == 1 else f"All {tasks} tasks succeeded."
    else:
        message = f"{ended_well} of {tasks} tasks succeeded, as its completion policy asks."
    return reason("succeeded", message, tasks=tasks, succeeded=ended_well)


def failed(ending: Ending | None, failed_tasks: int) -> Reason:
    if ending is None:
        return reason("task_failed", f"{failed_tasks} tasks failed.", failed=failed_tasks)
    more = f" {failed_tasks} tasks failed in all." if failed_tasks > 1 else ""
    return reason(ending.code, ending.sentence + more, failed=failed_tasks, **ending.details)


def stopped(username: str) -> Reason:
    return reason("stopped", f"Stopped by {username}.", by=username)


def former_member(username: str, vc: str, *, deactivated: bool) -> Reason:
    """Return why a job is stopped whose owner may not go on using the virtual cluster."""
    what = "was deactivated" if deactivated else f"is not a member of {vc} any more"
    message = f"Stopped because its owner {username} {what}."
    return reason("owner_left", message, deactivated=deactivated)


def idle(count: int, percent: int, seconds: int) -> Reason:
    """Return why a job is stopped that did not use its GPUs for so long."""
    message = (
        f"Stopped because its {gpus(count)} stayed below {percent} % utilisation for "
        f"{duration(seconds)}. Read its log for what it waited for, ask for fewer GPUs, or have a "
        "VC admin exempt the next one."
    )
    return reason(IDLE, message, gpus=count, percent=percent, idle_s=seconds)


IDLE = "idle"


def gpus(count: int) -> str:
    return "GPU" if count == 1 else f"{count} GPUs"


def ending_soon(max_duration_s: int) -> str:
    """Return the warning of a job that has nearly run for as long as it may."""
    return (
        f"It ends soon: its maximum duration of {duration(max_duration_s)} is nearly over. Save a "
        "checkpoint; a job of its own can go on from there."
    )


def over_time(seconds: int) -> Reason:
    """Return why a job fails that ran for as long as it may."""
    message = f"It has run for its maximum duration of {duration(seconds)}."
    return reason(OVER_TIME, message, max_duration_s=seconds)


OVER_TIME = "max_duration_exceeded"


def diagnosed(diagnosis: Mapping[str, Any]) -> Reason | None:
    """Return why a job failed and what to do about it; None where it is not known."""
    if diagnosis["evidence"]["source"] == "none":
        return None
    details = {name: diagnosis[name] for name in ("category", "task", "node", "rule")}
    message = f"{_cause(diagnosis)} {diagnosis['remedy']}"
    return reason(diagnosis["name"], message, exit_spec=diagnosis["code"], **details)


def explained(why: Reason, diagnosis: Mapping[str, Any]) -> Reason:
    """Return the reason of a failure with its diagnosis."""
    if diagnosis["evidence"]["source"] != "log":
        return why
    message = f"{why['message']} {_cause(diagnosis)}"
    return reason(why["code"], message, **why["details"], diagnosis=diagnosis["name"])


def _cause(diagnosis: Mapping[str, Any]) -> str:
    line = diagnosis["evidence"]["text"].strip()[:MOST_SAID].rstrip(".")
    return f"{diagnosis.get('title') or diagnosis['category']}: {line}."


MOST_SAID = 200  # characters of a log's line


def begun(tasks: int) -> str:
    return f"All {tasks} tasks are ready: they begin."


@dataclass(frozen=True, slots=True)
class Late:
    """A task that keeps its gang waiting."""

    role: str
    index: int
    node: str
    phase: str
    pull_percent: int | None

    def __str__(self) -> str:
        pulling = self.phase == "pulling" and self.pull_percent is not None
        doing = f"pulling {self.pull_percent} %" if pulling else self.phase or "not begun"
        return f"{self.role}-{self.index} on {self.node} ({doing})"


def waiting_for(late: Sequence[Late], tasks: int) -> str:
    """Return why a gang has not begun; `late` are some of the tasks that it waits for, at least
    one."""
    more = f" and {len(late) - MAX_LATE} more" if len(late) > MAX_LATE else ""
    named = ", ".join(str(one) for one in late[:MAX_LATE])
    ready = tasks - len(late)
    verb = "is" if ready == 1 else "are"
    return f"{ready} of {tasks} tasks {verb} ready; waiting for {named}{more}."


MAX_LATE = 3


def pulling(percent: int, node: str) -> str:
    return f"Pulling the image on {node}: {percent} %."


def retried(
    cause: Reason,
    retry: Retry,
    used: int,
    allowed: int,
    seconds: float,
    *,
    node: str | None,
    in_a_row: int = 0,
) -> Reason:
    """Return why something is tried again, and when. `node`: where it failed; `in_a_row`: how many
    free retries there were without a long run between them, this one too."""
    which = "a retry that is not counted"
    if in_a_row > 1:
        which += f", the {ordinal(in_a_row)} in a row"
    if retry == Retry.COUNTED:
        which = f"retry {used} of {allowed}" if allowed >= 0 else f"retry {used}"
    where = f", elsewhere than on {node}" if retry == Retry.ELSEWHERE and node else ""
    message = (
        f"{cause['message']} It is tried again after {duration(round(seconds))}{where}: {which}."
    )
    details = {"cause": cause["code"], "in_s": seconds, "retries_used": used, "retry": str(retry)}
    return reason("retry", message, **details)


def ordinal(number: int) -> str:
    """Return a number as an ordinal: "2nd", "3rd", "11th"."""
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{last or 'th'}"


def given_up(retries: int, since: datetime, now: datetime) -> str:
    """Return why a failure that is retried for free was not tried again any more."""
    times = "1 free retry" if retries == 1 else f"{retries} free retries in a row"
    return f"It is not tried again: {times} within {span(since, now)} ended the same way."


def preempted(
    by: Job, now: datetime, *, peer: bool, standing: Mapping[str, Any] | None = None
) -> Reason:
    """Return why a job is preempted. The stored sentence does not name the preemptor:
    `for_reader` does, for readers who may see it. `peer`: both belong to one virtual cluster.
    `standing`: where the job stands under its policy, if that and no priority is why."""
    details = {"by": str(by.pk), "priority_class": by.priority_class, "peer": peer}
    if standing:
        details |= {"standing": dict(standing), "told_at": now.timestamp()}
    return reason("preempted", for_reader("preempted", "", details), **details)


def evicted(why: str) -> Reason:
    """Return why a job leaves its nodes; `why` is a sentence: "Node n1 is being drained."."""
    return reason("evicted", for_reader("evicted", "", {"why": why}), why=why)


def resized(why: Resize) -> Reason:
    """Return why a job leaves its nodes: it starts again with another number of tasks."""
    details = asdict(why)
    del details["gang"]
    return reason("resized", for_reader("resized", "", details), **details)


def requeued(why: Reason, preemptions: int) -> Reason:
    """Return why a preempted job is back in the queue. `why` is that of `preempted` or `evicted`;
    `preemptions` counts how often the job was preempted, this time included."""
    details = {**why["details"], "preemptions": preemptions}
    return reason(why["code"], for_reader(why["code"], why["message"], details), **details)


def downgraded(why: Reason) -> Reason:
    """Return why a guaranteed job runs as opportunistic; `why` is the scheduler's reason."""
    details = {**why["details"], "why": why["code"]}
    message = f"Runs as opportunistic from now on. {why['message']}"
    return reason("downgraded", message, **details)


def never_holds(upstream: UUID, condition: str, state: str) -> Reason:
    """Return why a job fails that waits for what `upstream`, which ended in this state, did not do.
    The stored sentence does not name that job: `for_reader` does, for readers who may see it."""
    details = {"by": str(upstream), "condition": condition, "state": state}
    return reason(NEVER_HOLDS, for_reader(NEVER_HOLDS, "", details), **details)


NEVER_HOLDS = "dependency_never_holds"
# What a job waits for another one to do, by the condition in its file.
CONDITIONS = {
    "afterok": "succeed",
    "afternotok": "fail or be stopped",
    "afterany": "end",
    "after": "start",
}


def for_reader(
    code: str, message: str, details: Mapping[str, Any], names: Mapping[str, str] = NO_NAMES
) -> str:
    """Return the sentence of a reason of this app, rendered from its code and details for a reader
    who may know these `names` of jobs, by their ids. Reasons that mention no other job, and rows
    of older versions that lack details, keep the stored `message`."""
    render = RENDERERS.get(code)
    found = render(details, names) if render else None
    return message if found is None else found


def _preempted(details: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    if "peer" not in details:
        return None
    name = names.get(details["by"])
    if details["peer"]:
        who, because = "another job", "which has a higher priority"
    else:
        who, because = "a job of another virtual cluster", "which owns the cells"
    if name is not None:
        who = f"{details['priority_class']} job {name}"
    if details.get("standing"):
        stands = standings.sentence(details["standing"], details["told_at"])
        return f"Preempted by {who}: {stands or 'it comes first now'}. {_what_follows(details)}"
    return f"Preempted by {who}, {because}. {_what_follows(details)}"


def _evicted(details: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    return f"{details['why']} {_what_follows(details)}" if "why" in details else None


def _resized(details: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    before, after = details["tasks_before"], details["tasks"]
    if not after:
        return f"Gives its GPUs to other jobs ({details['policy']}). {_what_follows(details)}"
    verb = "Grows" if after > before else "Shrinks"
    gpus = f"{details['gpus_before']} to {details['gpus']} GPUs"
    size = f"from {before} to {words.count(after, 'task')} ({gpus})"
    return f"{verb} {size}: {details['policy']}. {_what_follows(details)}"


def _what_follows(details: Mapping[str, Any]) -> str:
    if "preemptions" in details:
        return "It waits in its old place in the queue; this does not count as a retry."
    return "It saves its work, ends, and starts again from its old place in the queue."


def _downgraded(details: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    if details.get("why") != "preempted_lazily" or "by" not in details:
        return None
    return f"Runs as opportunistic from now on. {_taken_lazily(details, names)}"


def _never_holds(details: Mapping[str, Any], names: Mapping[str, str]) -> str:
    if "condition" not in details:  # of an older version: its sentence names the job to everybody
        return "It can never start: another job did not end as its dependency asks."
    asked = f"{details['condition']} asks it to {CONDITIONS[details['condition']]}"
    if name := names.get(details["by"]):
        return f"It can never start: job {name} is {details['state']}, and {asked}."
    return f"It can never start: it waits for another job that has ended, and {asked}."


def _taken_lazily(details: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    who = names.get(details.get("by", ""), "another job")
    return f"Its cells go to {who}; it runs on opportunistically."


RENDERERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, str]], str | None]] = {
    "preempted": _preempted,
    "evicted": _evicted,
    "resized": _resized,
    "downgraded": _downgraded,
    "preempted_lazily": _taken_lazily,
    NEVER_HOLDS: _never_holds,
}


def code_of_event(kind: str, data: Mapping[str, Any]) -> str:
    """Return the code of the reason behind an event; "" where it is about no other job."""
    if kind == "job.requeued":
        if "tasks_before" in data:
            return "resized"
        return "preempted" if "peer" in data else "evicted"
    if kind == "job.failed" and data.get("code") == NEVER_HOLDS:
        return NEVER_HOLDS
    return EVENT_CODES.get(kind, "")


# Of kinds of events, whose reasons may be about another job.
EVENT_CODES = {
    "job.preempted": "preempted",
    "job.evicted": "evicted",
    "job.resized": "resized",
    "job.downgraded": "downgraded",
}


def restored() -> Reason:
    return reason("restored", "Runs with its guarantee again.")


def placed(
    tasks_by_node: Mapping[str, int], gpu_model: str | None, gpus: int, *, owned: bool
) -> str:
    """Return on which nodes a gang was placed, and by which right."""
    names = sorted(tasks_by_node)
    shown = [
        name if tasks_by_node[name] == 1 else f"{name} ({tasks_by_node[name]} tasks)"
        for name in names[:MAX_NODES_NAMED]
    ]
    more = f" and {len(names) - MAX_NODES_NAMED} more" if len(names) > MAX_NODES_NAMED else ""
    what = f" with {gpus} x {gpu_model}" if gpu_model else ""
    right = " that its virtual cluster owns" if owned else " that no other job uses now"
    return f"Placed on {', '.join(shown)}{more}{what}{right if what else ''}."


def span(start: datetime, end: datetime) -> str:
    """Return for how long something ran."""
    return duration(max(int((end - start).total_seconds()), 0))


def duration(seconds: int) -> str:
    """Return a duration in two units at most: "15 s", "3 min 5 s", "2 h 30 min", "1 d 4 h"."""
    if seconds < 60:
        return f"{seconds} s"
    units = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)]
    first = next(at for at, (_, size) in enumerate(units) if seconds >= size)
    (name, size), (smaller, part) = units[first : first + 2]
    rest = seconds % size // part
    return f"{seconds // size} {name}" + (f" {rest} {smaller}" if rest else "")
