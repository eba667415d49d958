"""What an attempt came to, and what the journal keeps of it: no command, no environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skep_agent.containers import Exit
from skep_agent.protocol import CHECKPOINT_SIGNALS, SIGNAL_UNHANDLED, AttemptSpec
from skep_limits import MAX_GRACE_S


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: as facts of phase "exited" or "failed" report it; "lost" is reported by
    nothing but "released"."""

    phase: Literal["exited", "failed", "lost"]
    exit_code: int | None = None
    oom_killed: bool = False
    memory_peak_mb: int | None = None
    error_code: str = ""
    message: str = ""
    xids: tuple[int, ...] = ()
    disk_full: bool = False

    @property
    def signal(self) -> int | None:
        """The signal that a shell-style exit code stands for."""
        code = self.exit_code
        return code - 128 if code is not None and 128 < code <= 192 else None

    @classmethod
    def of(cls, exit_: Exit) -> Outcome:
        return cls(
            # What succeeded by its exit code, and not for the agent, has failed.
            "failed" if exit_.error_code and not exit_.exit_code else "exited",
            exit_code=exit_.exit_code,
            oom_killed=exit_.oom_killed,
            memory_peak_mb=exit_.memory_peak_mb,
            disk_full=exit_.disk_full,
            error_code=exit_.error_code,
            message=exit_.message,
        )


def unhandled(signal: str) -> Outcome:
    """Return what is reported of a task that no checkpoint signal reaches."""
    text = f"No process of this task handles {signal}: it could not be asked to save its work."
    return Outcome("lost", error_code=SIGNAL_UNHANDLED, message=text)


# requested: desired "stop". unlisted: left out of a Desired. superseded: a higher epoch was listed.
# fenced: the node's lease ran out.
StopReason = Literal["requested", "unlisted", "superseded", "fenced"]


@dataclass(frozen=True, slots=True)
class StopPlan:
    """How an attempt is stopped when its time has come, within bounds. A checkpoint signal is for
    those that are preempted alone."""

    grace_s: float = 30.0
    signal: str = ""
    signal_grace_s: float = 0.0

    @classmethod
    def of(cls, spec: AttemptSpec) -> StopPlan:
        signal = spec.checkpoint_signal if spec.checkpoint_signal in CHECKPOINT_SIGNALS else ""
        return cls(_bounded(spec.stop_grace_s), signal, _bounded(spec.checkpoint_grace_s))


def _bounded(grace_s: float) -> float:
    return min(grace_s, float(MAX_GRACE_S)) if grace_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Stopping:
    """A stop under way, by this machine's monotonic clock: an agent that comes back goes on with
    the same deadlines, and sends no checkpoint signal twice."""

    reason: StopReason
    save_until: float | None = None  # it was sent its checkpoint signal, and has so long
    kill_at: float | None = None  # it was sent SIGTERM, and has so long


@dataclass(frozen=True, slots=True)
class Remembered:
    """An attempt in the journal. With the labels of its container it is enough to go on."""

    attempt_id: str
    epoch: int
    job_id: str
    gpu_uuids: tuple[str, ...]
    ports: tuple[int, ...]
    plan: StopPlan
    container_id: str
    outcome: Outcome | None
    released: bool
    stopping: Stopping | None = None
