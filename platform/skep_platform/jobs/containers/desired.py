"""The complete desired state of a node, from its unreleased attempts.

An attempt's spec never changes but for `desired` and its cause, and the keys of storages, so specs
are remembered: a node that is sent one more attempt costs one small query and the new one's
details.

The gateway sends it as one frame.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import NamedTuple
from uuid import UUID

import structlog

from skep_agent.protocol import MAX_TEXT_FRAME, AttemptSpec, Desired, SharedSpec
from skep_platform.cluster.models import Node
from skep_platform.core.bulk import fetch
from skep_platform.core.compiled import Among, Compiled
from skep_platform.core.errors import Conflict
from skep_platform.core.logs import rarely
from skep_platform.jobs.containers.specs import BuiltSpec, NotBuilt, build
from skep_platform.jobs.lifecycle.facts import UNSAVED
from skep_platform.jobs.lifecycle.reporting import refuse
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import ATTEMPT, AttemptState
from skep_platform.storage.models import Storage

REMEMBERED_BYTES = 64 * 1024**2  # of texts; the objects take about as much again
# What one node is sent at most, below the frame limit of the protocol. An attempt that does not fit
# is left out and fails: it never keeps a node from what comes after it. Of this, the tasks of one
# owner have at most two thirds and those of one job a half, so that no user can fill it alone.
MAX_DESIRED_BYTES = MAX_TEXT_FRAME * 3 // 4
MAX_OWNER_BYTES = MAX_DESIRED_BYTES * 2 // 3
MAX_JOB_BYTES = MAX_DESIRED_BYTES // 2
MOST_LOGGED = 10  # attempts of a node
# Codes of the diagnosis: the first ends the job, after the second it is tried elsewhere.
TOO_LARGE, FRAME_FULL = "spec_refused", "start_timeout"
log = structlog.get_logger(__name__)

STOP_STATES = ATTEMPT.terminal | {AttemptState.STOPPING}


@dataclass(frozen=True, slots=True)
class NodeSpecs:
    """What a node shall run: attempts, oldest first, and what some of them share; with the texts of
    both as JSON."""

    attempts: list[AttemptSpec]
    shared: dict[str, SharedSpec]
    texts: list[str]
    shared_texts: dict[str, str]
    # Sent to run for the first time, see `record_sent`; with the requests that submitted the jobs.
    to_start: dict[UUID, str]
    refused: dict[UUID, tuple[str, str]]  # left out: code and message
    # They run there, or are prepared, and cannot be described: the node keeps them as they are. One
    # whose agent is older is sent nothing, as it would stop what is not listed.
    unknown: list[UUID] = field(default_factory=list)


def desired_state(node_id: UUID) -> NodeSpecs:
    """Return every attempt that the node holds or shall hold; see `desired_states`."""
    return desired_states([node_id])[node_id]


def desired_states(node_ids: Collection[UUID]) -> dict[UUID, NodeSpecs]:
    """Return, by node, every attempt that it holds or shall hold. One query for those known to this
    process, one more where some of them have keys of storages, and five for all others together,
    for any number of nodes."""
    states: dict[UUID, dict[UUID, _State]] = {node_id: {} for node_id in node_ids}
    for node_id, pk, *row in HELD.rows(nodes=list(node_ids)):
        states[node_id][pk] = _State(*row)
    built = _known.specs([pk for of_node in states.values() for pk in of_node])
    return {node_id: _node_specs(node_id, of_node, built) for node_id, of_node in states.items()}


def _node_specs(
    node_id: UUID, states: Mapping[UUID, _State], specs: Mapping[UUID, BuiltSpec | NotBuilt]
) -> NodeSpecs:
    attempts, shared, to_start = [], {}, {}
    texts, shared_texts, unknown = [], {}, []
    frame = _Frame(node_id)
    for pk, state in states.items():
        if pk not in specs:  # it was deleted meanwhile
            continue
        built = specs[pk]
        if isinstance(built, NotBuilt):
            if state.sent_run_at is None and built.refusal is not None:
                frame.refuse(pk, *built.refusal)
            elif state.is_there and state.state not in STOP_STATES:
                unknown.append(pk)
            continue
        if built.refusal and state.sent_run_at is None:
            frame.refuse(pk, *built.refusal)
            continue
        if not frame.takes(pk, built, state.owner_id):
            continue
        update = _differs(state)
        if not update and state.sent_run_at is None:
            to_start[pk] = state.request_id
        spec = built.spec.model_copy(update=update) if update else built.spec
        attempts.append(spec)
        texts.append(spec.model_dump_json() if update else built.text)
        if built.shared is not None:
            shared[spec.shares], shared_texts[spec.shares] = built.shared, built.shared_text
    return NodeSpecs(attempts, shared, texts, shared_texts, to_start, frame.refused, unknown)


def record_sent(sessions: Mapping[UUID, int], attempts: Mapping[UUID, UUID]) -> set[UUID]:
    """Record, before they are sent, that nodes may have started these attempts (attempt: node): if
    a node forgets them they are lost, and are not started a second time. Return the nodes whose
    session (node: epoch) is over: they must not be sent anything. One statement; none without
    attempts."""
    if not attempts:
        return set()
    nodes = list(dict.fromkeys(attempts.values()))
    epochs = [sessions[node_id] for node_id in nodes]
    params = [nodes, epochs, list(attempts), list(attempts.values())]
    return set(nodes) - {node_id for (node_id,) in fetch(SENT, params)}


SENT_AT = TaskAttempt._meta.get_field("sent_run_at").column
SENT = f"""
WITH mine AS (
  SELECT n.id FROM cluster_node n
    JOIN unnest(%s::uuid[], %s::bigint[]) s (id, epoch) ON n.id = s.id AND n.session_epoch = s.epoch
   WHERE n.connected),
sent AS (
  UPDATE jobs_taskattempt a SET {SENT_AT} = statement_timestamp()
    FROM unnest(%s::uuid[], %s::uuid[]) t (id, node_id)
   WHERE a.id = t.id AND a.node_id = t.node_id AND a.node_id IN (SELECT id FROM mine))
SELECT id FROM mine
"""  # noqa: S608 the name of a column


def _log_sent(node_id: UUID, state: NodeSpecs) -> None:
    new = {str(pk): request_id for pk, request_id in state.to_start.items()}
    for spec in state.attempts if new else ():
        if spec.attempt_id in new:
            ids = {"job_id": spec.job_id, "attempt_id": spec.attempt_id}
            ids |= {"node_id": str(node_id), "request_id": new[spec.attempt_id]}
            log.info("attempt_sent", **ids, epoch=spec.epoch)


def desired_attempts(node_id: UUID) -> list[AttemptSpec]:
    """Return the attempts as the node's agent reads them."""
    state = desired_state(node_id)
    return Desired(revision=0, attempts=state.attempts, shared=state.shared).whole().attempts


STATE = (
    *("state", "phase", "job__preempting_at"),
    *("job__begun_at", "job__tasks_total", "job__incremental", "sent_run_at"),
    *("job__owner_id", "job__request_id"),
)
HELD = Compiled(
    lambda: TaskAttempt.objects.filter(Among("node", "nodes"), released_at=None).order_by("pk"),
    *("node_id", "pk", *STATE),
)


class _State(NamedTuple):
    state: str
    phase: str
    preempting_at: datetime | None
    begun_at: datetime | None
    tasks_total: int
    incremental: bool
    sent_run_at: datetime | None
    owner_id: int
    request_id: str

    @property
    def is_there(self) -> bool:
        """Whether its node runs it, or prepares it while its gang is held."""
        return self.sent_run_at is not None or self.state == AttemptState.PREPARING

    @property
    def held(self) -> bool:
        """Whether it waits until the tasks of its gang begin together."""
        waits = self.begun_at is None and self.tasks_total > 1 and not self.incremental
        return waits and self.state in (AttemptState.ASSIGNED, AttemptState.PREPARING)


def _differs(now: _State) -> dict[str, str | bool]:
    """Return what differs from the spec as it was built, which says "run"."""
    if now.state in STOP_STATES:
        asked = now.preempting_at is not None and now.state == AttemptState.STOPPING
        cause = "preempted" if asked else ""
        at_once = now.phase == UNSAVED
        return {"desired": "stop", "stop_cause": cause, "stop_at_once": at_once}
    return {"desired": "hold"} if now.held else {}


class _Frame:
    """Counts what is left of the frame to a node, which takes the oldest attempts first."""

    def __init__(self, node_id: UUID) -> None:
        self._node_id = node_id
        self._total = 0
        self._of: Counter[object] = Counter()  # bytes by owner, and by job
        self.refused: dict[UUID, tuple[str, str]] = {}

    def takes(self, pk: UUID, built: BuiltSpec, owner: int) -> bool:
        """Return whether an attempt is sent; if not, `refused` has the reason."""
        job = built.spec.job_id
        if built.size > MAX_JOB_BYTES:
            size = f"{built.size} bytes" if built.size < sys.maxsize else "too many bytes"
            self.refuse(pk, TOO_LARGE, f"With its secrets, the task has {size} to be sent to its "
                         f"node, at most {MAX_JOB_BYTES}. Use fewer or shorter secrets, commands "
                         "and variables.")  # fmt: skip
            return False
        if (
            self._total + built.size > MAX_DESIRED_BYTES
            or self._of[owner] + built.size > MAX_OWNER_BYTES
            or self._of[job] + built.size > MAX_JOB_BYTES
        ):
            self.refuse(pk, FRAME_FULL, "Its node can be sent no more at a time: commands and "
                         f"variables of its tasks have more than {MAX_DESIRED_BYTES} bytes, or "
                         f"those of this job more than {MAX_JOB_BYTES}.")  # fmt: skip
            return False
        self._total += built.size
        self._of[owner] += built.size
        self._of[job] += built.size
        return True

    def refuse(self, pk: UUID, code: str, message: str) -> None:
        """Leave an attempt out, which fails for this reason."""
        ids = {"node_id": str(self._node_id), "attempt_id": str(pk)}
        log.warning("attempt_not_sent", **ids, code=code)
        self.refused[pk] = (code, message)


class _Known:
    """A cache of specs by attempt, of which the oldest go first. Safe for threads."""

    def __init__(self) -> None:
        self._specs: OrderedDict[UUID, BuiltSpec] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def specs(self, attempts: Collection[UUID]) -> dict[UUID, BuiltSpec | NotBuilt]:
        """Return the specs in the order of `attempts`, without those that were deleted. What could
        not be built is tried anew each time."""
        with self._lock:
            known = {pk: self._specs[pk] for pk in attempts if pk in self._specs}
        for pk in _outdated(known):
            del known[pk]
            self._drop(pk)
        found: dict[UUID, BuiltSpec | NotBuilt] = {**known}
        missing = [pk for pk in attempts if pk not in found]
        if missing:
            built = build(missing)
            self._remember({pk: one for pk, one in built.items() if isinstance(one, BuiltSpec)})
            found |= built
        return {pk: found[pk] for pk in attempts if pk in found}

    def _drop(self, pk: UUID) -> None:
        with self._lock:
            if (built := self._specs.pop(pk, None)) is not None:
                self._bytes -= built.size

    def _remember(self, specs: Mapping[UUID, BuiltSpec]) -> None:
        with self._lock:
            for pk, built in specs.items():
                if pk not in self._specs:
                    self._specs[pk] = built
                    self._bytes += built.size
            while self._bytes > REMEMBERED_BYTES:
                self._bytes -= self._specs.popitem(last=False)[1].size


def _outdated(specs: Mapping[UUID, BuiltSpec]) -> list[UUID]:
    """Return those with keys of storages that were changed or deleted since. One query where there
    are any with keys."""
    known = {pk for built in specs.values() for pk in built.buckets}
    if not known:
        return []
    now = dict(Storage.objects.filter(pk__in=known).values_list("pk", "updated_at"))
    return [pk for pk, built in specs.items() if not built.buckets.items() <= now.items()]


_known = _Known()


class SessionState(NamedTuple):
    """What the desired state of a node is sent to."""

    epoch: int
    revision: int | None = None  # that was sent last
    keeps: bool = False  # the agent has the feature KEEPS


@dataclass(frozen=True, slots=True)
class DesiredFrame:
    revision: int
    attempts: list[AttemptSpec]
    frame: str
    kept: tuple[str, ...] = ()  # attempts that go on without being described


def frame_of_new_node(node: Node) -> DesiredFrame | None:
    """Return the empty desired state of a node that was never connected before the session that
    was just opened: nothing can have been placed there. None for any other node.

    What is placed from now on raises the revision, which the next heartbeat returns."""
    if not node.first_session:
        return None
    frame = Desired(revision=node.desired_revision, attempts=[]).model_dump_json()
    return DesiredFrame(node.desired_revision, [], frame)


def build_frame(node_id: UUID, session: SessionState) -> DesiredFrame | None:
    """Return the complete desired state of one node; see `build_frames`. Raises Conflict
    `session_fenced` when the session is over."""
    found = build_frames({node_id: session})
    if node_id not in found:
        raise session_is_over()
    return found[node_id]


def build_frames(wanted: Mapping[UUID, SessionState]) -> dict[UUID, DesiredFrame | None]:
    """Return the complete desired states of the nodes of these sessions. A node that was sent the
    present revision already has None, and one whose session is over is left out. As many queries
    for many nodes as for one.

    The revision is read before the attempts: they may be newer than it says, and are then sent
    once more, but never older."""
    revisions = {
        pk: revision
        for pk, epoch, revision in CONNECTED.rows(nodes=list(wanted))
        if epoch == wanted[pk].epoch
    }
    changed = {pk: now for pk, now in revisions.items() if now != wanted[pk].revision}
    states = desired_states(changed) if changed else {}
    for node_id, unknown in [(pk, state.unknown) for pk, state in states.items() if state.unknown]:
        attempts = [str(pk) for pk in unknown[:MOST_LOGGED]]
        event = "attempts_kept" if wanted[node_id].keeps else "node_waits"
        rarely(log, f"{event}:{node_id}", event, node_id=str(node_id), attempts=attempts)
        if not wanted[node_id].keeps:
            del states[node_id]
    for state in states.values():
        if state.refused:
            refuse(state.refused)
    to_start = {pk: node_id for node_id, state in states.items() for pk in state.to_start}
    over = record_sent({pk: session.epoch for pk, session in wanted.items()}, to_start)
    found: dict[UUID, DesiredFrame | None] = {pk: None for pk in revisions if pk not in over}
    for node_id, state in states.items():
        if node_id in found:
            _log_sent(node_id, state)
            found[node_id] = _frame(changed[node_id], state)
    return found


CONNECTED = Compiled(
    lambda: Node.objects.filter(Among("pk", "nodes"), connected=True),
    *("pk", "session_epoch", "desired_revision"),
)


def _frame(revision: int, state: NodeSpecs) -> DesiredFrame:
    """Return the frame: `Desired` as JSON, put together from texts that were made once."""
    attempts = ",".join(state.texts)
    shared = ",".join(f"{json.dumps(name)}:{text}" for name, text in state.shared_texts.items())
    kept = tuple(map(str, state.unknown))
    keep = ",".join(map(json.dumps, kept))
    frame = (
        f'{{"type":"desired","revision":{revision},"attempts":[{attempts}],'
        f'"shared":{{{shared}}},"keep":[{keep}]}}'
    )
    return DesiredFrame(revision, state.attempts, frame, kept)


def session_is_over() -> Conflict:
    return Conflict("This session of the node is over.", code="session_fenced")
