"""What a job's owner reads: the sentences of its events and reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from skep_platform.jobs.life.diagnosing import Failed
from skep_platform.jobs.life.lifecycle import Retry

if TYPE_CHECKING:
    from skep_platform.jobs.models import Job

Reason = dict[str, Any]  # {code, message, details}, as it is stored and shown
MAX_NODES_NAMED = 8


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


def reason(code: str, message: str, **details: Any) -> Reason:
    return {"code": code, "message": message, "details": details}


def succeeded(tasks: int, ended_well: int) -> Reason:
    """The verdict of a job whose completion policy is met."""
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
    """The verdict of a job whose owner may not go on using the virtual cluster."""
    what = "was deactivated" if deactivated else f"is not a member of {vc} any more"
    message = f"Stopped because its owner {username} {what}."
    return reason("owner_left", message, deactivated=deactivated)


def over_time(seconds: int) -> Reason:
    """The verdict of a job that ran for as long as it may."""
    message = f"It has run for its maximum duration of {duration(seconds)}."
    return reason(OVER_TIME, message, max_duration_s=seconds)


OVER_TIME = "max_duration_exceeded"


def diagnosed(diagnosis: Mapping[str, Any]) -> Reason | None:
    """Why it failed and what to do about it; None where nobody knows."""
    if diagnosis["evidence"]["source"] == "none":
        return None
    details = {name: diagnosis[name] for name in ("category", "task", "node", "rule")}
    message = f"{_cause(diagnosis)} {diagnosis['remedy']}"
    return reason(diagnosis["name"], message, exit_spec=diagnosis["code"], **details)


def explained(why: Reason, diagnosis: Mapping[str, Any]) -> Reason:
    """A failure with its diagnosis."""
    if diagnosis["evidence"]["source"] != "log":
        return why
    message = f"{why['message']} {_cause(diagnosis)}"
    return reason(why["code"], message, **why["details"], diagnosis=diagnosis["name"])


def _cause(diagnosis: Mapping[str, Any]) -> str:
    said = diagnosis["evidence"]["text"].strip()[:MOST_SAID].rstrip(".")
    return f"{diagnosis.get('title') or diagnosis['category']}: {said}."


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
    """Why a gang has not begun; `late` are some of the tasks that it waits for, at least one."""
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
    """Why something is tried again, and when. `node`: where it failed; `in_a_row`: how many free
    retries there were without a long run between them, this one too."""
    which = "a retry that is not counted"
    if in_a_row > 1:
        which += f", the {ordinal(in_a_row)} in a row"
    if retry == Retry.COUNTED:
        which = f"retry {used} of {allowed}" if allowed >= 0 else f"retry {used}"
    where = f", elsewhere than on {node}" if retry == Retry.ELSEWHERE and node else ""
    message = f"{cause['message']} It starts again in {seconds:g} s{where}: {which}."
    details = {"cause": cause["code"], "in_s": seconds, "retries_used": used, "retry": str(retry)}
    return reason("retry", message, **details)


def ordinal(number: int) -> str:
    """ "2nd", "3rd", "11th"."""
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{last or 'th'}"


def given_up(retries: int, since: datetime, now: datetime) -> str:
    """Why a failure that is retried for free was not tried again any more."""
    times = "1 free retry" if retries == 1 else f"{retries} free retries in a row"
    return f"It is not tried again: {times} within {span(since, now)} ended the same way."


def preempted(by: Job, *, peer: bool) -> Reason:
    """Why a job is asked to make room. It names nobody: `naming` does, for a reader who may see the
    preemptor. `peer`: both belong to one virtual cluster."""
    details = {"by": str(by.pk), "priority_class": by.priority_class, "peer": peer}
    message = f"{PEER if peer else OWNER} {MAKES_ROOM}"
    return reason("preempted", message, **details)


PEER = "Preempted by another job, which has a higher priority."
OWNER = "Preempted by a job of another virtual cluster, which owns the cells."


def naming(message: str, details: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """A stored sentence with the names of other jobs, by id, that its reader may know."""
    if (name := names.get(details.get("by", ""))) is not None:
        who = f"{details['priority_class']} job {name}" if "priority_class" in details else name
        for anonymous in ("another job", "a job of another virtual cluster"):
            if anonymous in message:
                return message.replace(anonymous, who, 1)
    return message


MAKES_ROOM = "It makes room, and starts again from its old place in the queue."


def evicted(why: str) -> Reason:
    return reason("evicted", f"{why} {MAKES_ROOM}", why=why)


def requeued(why: Reason, preemptions: int) -> Reason:
    """Why a job that made room is back in the queue."""
    message = why["message"].replace(MAKES_ROOM, "").rstrip()
    message += " It waits in its old place in the queue; this does not count as a retry."
    return reason(why["code"], message, **why["details"], preemptions=preemptions)


def downgraded(why: Reason) -> Reason:
    message = f"Runs as opportunistic from now on. {why['message']}"
    return reason("downgraded", message, **why["details"], why=why["code"])


def restored() -> Reason:
    return reason("restored", "Runs with its guarantee again.")


def placed(
    tasks_by_node: Mapping[str, int], gpu_model: str | None, gpus: int, *, owned: bool
) -> str:
    """On which nodes a gang was placed, and by which right."""
    names = sorted(tasks_by_node)
    shown = [
        name if tasks_by_node[name] == 1 else f"{name} ({tasks_by_node[name]} tasks)"
        for name in names[:MAX_NODES_NAMED]
    ]
    more = f" and {len(names) - MAX_NODES_NAMED} more" if len(names) > MAX_NODES_NAMED else ""
    what = f" with {gpus} x {gpu_model}" if gpu_model else ""
    right = " that its virtual cluster owns" if owned else " that nobody else uses now"
    return f"Placed on {', '.join(shown)}{more}{what}{right if what else ''}."


def span(start: datetime, end: datetime) -> str:
    """How long something ran."""
    return duration(max(int((end - start).total_seconds()), 0))


def duration(seconds: int) -> str:
    """As people say it, in two units at most: "15 s", "3 min 5 s", "2 h 30 min", "1 d 4 h"."""
    if seconds < 60:
        return f"{seconds} s"
    units = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)]
    first = next(at for at, (_, size) in enumerate(units) if seconds >= size)
    (name, size), (smaller, part) = units[first : first + 2]
    rest = seconds % size // part
    return f"{seconds // size} {name}" + (f" {rest} {smaller}" if rest else "")
