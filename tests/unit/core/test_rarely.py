"""Warnings that would otherwise be repeated thousands of times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skep_platform.core import logs


class Logger:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append({"event": event, **fields})


def test_finding_c7_what_goes_on_failing_is_reported_once_a_minute_with_how_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    # Of this module alone: threads of other tests may still wait by the real one.
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(logs, "_logged", {})
    logger = Logger()
    for _ in range(4005):
        logs.rarely(logger, "OSError", "log_store_away", error="No space left on device")
        now += 0.1
    assert len(logger.lines) == 7
    assert sum(line.get("left_out", 0) for line in logger.lines) >= 3500
    logs.rarely(logger, "TimeoutError", "log_store_away", error="another trouble")
    assert len(logger.lines) == 8
