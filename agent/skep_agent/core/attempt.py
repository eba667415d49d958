"""A task attempt as its node holds it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from skep_agent.core.records import Outcome, Remembered, Stopping, StopPlan, StopReason
from skep_agent.protocol import AttemptSpec

State = Literal[
    "new",  # not yet held: between admission or adoption and the first transition
    "pulling",
    "creating",
    "created",  # waits for the server's word to start: its gang begins together, or it was adopted
    "starting",
    "running",
    "saving",  # preempted: it was sent its checkpoint signal, and has some time before the stop
    "stopping",
    "ended",  # its process is dead or never was; its GPUs are being looked at
    "released",  # its GPUs are clean and given back; facts and logs are still on their way
    "removing",
    "gone",
]
OVER: frozenset[State] = frozenset({"ended", "released", "removing"})
# Not yet over, and nothing but a stop or its own end may happen to it.
RUNNING: frozenset[State] = frozenset({"running", "saving", "stopping"})
WITH_CONTAINER: frozenset[State] = RUNNING | {"created", "starting"}
ALIVE: frozenset[State] = WITH_CONTAINER | {"pulling", "creating"}


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition, for `history`."""

    at: float  # seconds since the epoch
    start: State
    finish: State
    cause: str  # the event's name


History = deque[Transition]


@dataclass(slots=True, eq=False)
class Attempt:
    """See `invariants.py` for what holds between the fields."""

    attempt_id: str
    epoch: int
    job_id: str
    plan: StopPlan = field(default_factory=StopPlan)
    # None for an adopted attempt that the present server has not listed yet.
    spec: AttemptSpec | None = None
    # Held by this attempt alone until they are seen clean; then ().
    gpus: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    state: State = "new"
    container_id: str = ""
    hold: bool = False  # newest word of the server: not to be started yet
    whole: bool = False  # its container has all that it needs to start
    shipping: bool = False  # the container's own log is being shipped
    stop_reason: StopReason | None = None
    preempted: bool = False  # that is why; only then is its checkpoint signal sent
    save_until: float | None = None  # monotonic, as the next
    kill_at: float | None = None
    xids: tuple[int, ...] = ()  # of its GPUs, since it started
    outcome: Outcome | None = None
    pull_percent: int = 0  # as it was reported last, like the next three
    pull_bytes: int = 0
    pull_total_bytes: int = 0  # 0: not known
    pull_reported_at: float = -math.inf  # monotonic
    retries: int = 0  # of the present state
    ended_at: float = 0.0  # monotonic
    gpus_reported: bool = False  # it was reported that its GPUs do not become free
    release_acked: bool = False  # the server acknowledged "released"
    drained: bool = False  # the server has the whole log
    history: History = field(default_factory=lambda: deque(maxlen=50))

    def record(self) -> Remembered:
        return Remembered(
            attempt_id=self.attempt_id,
            epoch=self.epoch,
            job_id=self.job_id,
            gpu_uuids=self.gpus,
            ports=self.ports,
            plan=self.plan,
            container_id=self.container_id,
            outcome=self.outcome,
            released=self.state in ("released", "removing"),
            stopping=self._stopping(),
        )

    def _stopping(self) -> Stopping | None:
        if self.stop_reason is None or self.state not in ("saving", "stopping"):
            return None
        return Stopping(self.stop_reason, self.save_until, self.kill_at)


@dataclass(slots=True)
class Tombstone:
    """An attempt that is gone. A late Desired may still list it: its end is then reported
    again, and it is never run a second time."""

    epoch: int
    outcome: Outcome
    history: History
    reported_seq: int = 0  # newest fact about it; not reported again before that is acknowledged
