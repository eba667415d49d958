"""What an attempt came to, and what the journal keeps of it: no command, no environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skep_agent.runtimes.base import Exit


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: as facts of phase "exited" or "failed" tell it; "lost" is told by
    nothing but "released"."""

    phase: Literal["exited", "failed", "lost"]
    exit_code: int | None = None
    oom_killed: bool = False
    memory_peak_mb: int | None = None
    error_code: str = ""
    message: str = ""

    @property
    def signal(self) -> int | None:
        """The signal that a shell-style exit code stands for."""
        code = self.exit_code
        return code - 128 if code is not None and 128 < code <= 192 else None

    @classmethod
    def of(cls, exit_: Exit) -> Outcome:
        return cls(
            "exited",
            exit_code=exit_.exit_code,
            oom_killed=exit_.oom_killed,
            memory_peak_mb=exit_.memory_peak_mb,
        )


@dataclass(frozen=True, slots=True)
class Remembered:
    """An attempt in the journal. With the labels of its container it is enough to go on."""

    attempt_id: str
    epoch: int
    job_id: str
    gpu_uuids: tuple[str, ...]
    ports: tuple[int, ...]
    stop_grace_s: float
    container_id: str
    outcome: Outcome | None
    released: bool
