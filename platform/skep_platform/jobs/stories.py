"""What a job's owner reads: the sentences of its events and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skep_platform.jobs.models import Job

Reason = dict[str, Any]  # {code, message, details}, as it is stored and shown
MAX_NODES_NAMED = 8


@dataclass(frozen=True, slots=True)
class Ending:
    """How one task attempt ended, for a sentence."""

    role: str
    index: int
    node: str
    state: str
    exit_code: int | None
    exit_signal: int | None
    oom_killed: bool
    error_code: str
    error_message: str

    @property
    def code(self) -> str:
        return self.error_code or "task_failed"

    @property
    def sentence(self) -> str:
        return f"Task {self.role}[{self.index}] on {self.node} {self._what}."

    @property
    def _what(self) -> str:
        said = f": {self.error_message.rstrip('.')}" if self.error_message else ""
        if self.oom_killed:
            return "was killed because it used more memory than it asked for" + said
        if self.exit_signal:
            return f"was ended by signal {self.exit_signal}{said}"
        if self.exit_code is not None:
            return f"exited with code {self.exit_code}{said}"
        if self.state == "LOST":
            return f"was lost{said}"
        return f"could not run ({self.error_code}){said}" if self.error_code else f"ended{said}"

    @property
    def details(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "index": self.index,
            "node": self.node,
            "exit_code": self.exit_code,
            "signal": self.exit_signal,
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


def retried(cause: Reason, *, counted: bool, used: int, allowed: int, seconds: float) -> Reason:
    """Why a job is back in the queue."""
    which = f"retry {used} of {allowed}" if counted else "a retry that is not counted"
    message = f"{cause['message']} It starts again in {seconds:g} s: {which}."
    return reason("retry", message, cause=cause["code"], in_s=seconds, retries_used=used)


def preempted(by: Job, *, peer: bool) -> Reason:
    """Why a job is asked to make room. Its readers may know the name of a `peer`, a job of the
    same virtual cluster; of another one they learn it only if they may (`named`)."""
    details = {"by": str(by.pk), "priority_class": by.priority_class}
    if peer:
        message = f"Preempted by {by.priority_class} job {by.name}, which has a higher priority."
        details["name"] = by.name
    else:
        message = _by_owner("a job", by.vc.name)
    return reason("preempted", f"{message} {MAKES_ROOM}", **details, virtual_cluster=by.vc.name)


def named(message: str, details: Mapping[str, Any], name: str) -> str:
    """The sentence of `preempted` for somebody who may know the preemptor's name."""
    vc = details["virtual_cluster"]
    who = f"{details['priority_class']} job {name}"
    return message.replace(_by_owner("a job", vc), _by_owner(who, vc), 1)


def _by_owner(who: str, vc: str) -> str:
    return f"Preempted by {who} of {vc}, which owns the cells."


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


def placed(tasks_by_node: Mapping[str, int], gpu_model: str | None, gpus: int) -> str:
    """On which nodes a gang was placed."""
    names = sorted(tasks_by_node)
    shown = [
        name if tasks_by_node[name] == 1 else f"{name} ({tasks_by_node[name]} tasks)"
        for name in names[:MAX_NODES_NAMED]
    ]
    more = f" and {len(names) - MAX_NODES_NAMED} more" if len(names) > MAX_NODES_NAMED else ""
    what = f" with {gpus} x {gpu_model}" if gpu_model else ""
    return f"Placed on {', '.join(shown)}{more}{what}."


def span(start: datetime, end: datetime) -> str:
    """How long something ran: "0:03:05"."""
    return str(timedelta(seconds=max(int((end - start).total_seconds()), 0)))
