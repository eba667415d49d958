"""The agent's memory on disk: one JSON object per line, appended, rewritten when it has grown.

It survives the death of the agent, not of the machine: after that no container runs, so nothing is
synced. On a disk that is full, read-only or broken the agent goes on: what was not written follows,
all of it, as soon as the disk takes it, and until then the labels of the containers are all that
another agent finds.

It holds no command, no environment and no credential. SQLite in its place was measured (WAL): a
third more time for each record without syncing, and 4 ms with it.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from skep_agent.core.records import Outcome, Remembered, Stopping, StopPlan

_GARBAGE_LINES = 2000  # rewritten beyond this many lines that no longer count
_SEQ_BLOCK = 10_000  # numbers are reserved in blocks, so that few lines are written

log = structlog.get_logger(__name__)


class Journal:
    """`records`, `next_seq` and `lease` are what a process before this one left behind.

    `memory_id` is made with the file, and anew after another boot, for nothing here is synced:
    another one says that what was held may be forgotten.
    Sequence numbers below `next_seq` may have been used. `lease` is (boot id, seconds of the
    monotonic clock); it means nothing after another boot.
    """

    def __init__(self, path: Path, boot_id: str) -> None:
        self._path = path
        self._boot_id = boot_id
        self._seq_limit = 1
        self._lines = 0
        self.memory_id = ""
        self._lease: dict[str, Any] | None = None
        self._live: dict[str, dict[str, Any]] = {}
        self.problem = ""  # why the file lacks what is known; "" where it has all of it
        self._file = -1  # none, on a disk that did not take one yet
        self._behind = False  # the file lacks what is known, or ends in half a line
        self._read()
        self.memory_id = self.memory_id or str(uuid.uuid4())
        self.next_seq = self._seq_limit
        self._append(None)

    @property
    def records(self) -> list[Remembered]:
        return [_record(raw) for raw in self._live.values()]

    @property
    def lease_until(self) -> float | None:
        """None when no lease is known of this boot of the machine."""
        lease = self._lease
        return float(lease["until"]) if lease and lease["boot"] == self._boot_id else None

    def remember(self, record: Remembered) -> None:
        raw = _raw(record)
        self._live[record.attempt_id] = raw
        self._append(raw)

    def forget(self, attempt_id: str) -> None:
        if self._live.pop(attempt_id, None) is not None:
            self._append({"op": "drop", "attempt_id": attempt_id})

    def remember_lease(self, until: float) -> None:
        self._lease = {"op": "lease", "until": until, "boot": self._boot_id}
        self._append(self._lease)

    def reserve(self, next_seq: int) -> None:
        """To be called before a fact numbered `next_seq - 1` is sent."""
        if next_seq >= self._seq_limit:
            self._seq_limit = next_seq + _SEQ_BLOCK
            self._append({"op": "seq", "limit": self._seq_limit})

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    def _append(self, raw: dict[str, Any] | None) -> None:
        """Append what is known by now, or write all of it where that is due."""
        try:
            if raw is None or self._behind or self._lines > _GARBAGE_LINES + len(self._live):
                self._rewrite()
                return
            line = _line(raw)
            if os.write(self._file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._lines += 1
        except OSError as error:
            # Whatever the disk says, the tasks run on: with the agent they would end by the lease.
            problem = f"{self._path}: {error.strerror}"
            if problem != self.problem:
                log.error("journal_behind", problem=problem)
            self._behind, self.problem = True, problem

    def _rewrite(self) -> None:
        """Atomically, so that a kill leaves the old file or the new one."""
        raws: list[dict[str, Any]] = [{"op": "memory", "id": self.memory_id, "boot": self._boot_id}]
        raws += [{"op": "seq", "limit": self._seq_limit}, *self._live.values()]
        raws += [self._lease] if self._lease else []
        fresh = self._path.with_suffix(".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        # Later appends need O_APPEND again.
        with os.fdopen(file, "wb") as stream:
            stream.write(b"".join(map(_line, raws)))
        # Before the old one is closed: should it fail, the number would soon be another file's.
        appending = os.open(fresh, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            fresh.replace(self._path)
        except OSError:
            os.close(appending)
            raise
        self.close()
        self._file = appending
        self._lines = len(raws)
        self._behind, self.problem = False, ""

    def _read(self) -> None:
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:  # the labels of the containers remain
            log.error("journal_not_read", problem=f"{self._path}: {error.strerror}")
            return
        for line in lines:
            try:
                self._replay(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue  # torn by a kill, or of another version: containers' labels remain

    def _replay(self, raw: dict[str, Any]) -> None:
        match raw["op"]:
            case "hold":
                self._live[_record(raw).attempt_id] = raw
            case "drop":
                self._live.pop(raw["attempt_id"], None)
            case "lease":
                self._lease = {"op": "lease", "until": float(raw["until"]), "boot": raw["boot"]}
            case "memory":
                self.memory_id = str(raw["id"]) if raw["boot"] == self._boot_id else ""
            case "seq":
                self._seq_limit = max(self._seq_limit, int(raw["limit"]))


def _line(raw: dict[str, Any]) -> bytes:
    return json.dumps(raw, separators=(",", ":")).encode() + b"\n"


def _raw(record: Remembered) -> dict[str, Any]:
    return {"op": "hold", **asdict(record)}


def _record(raw: dict[str, Any]) -> Remembered:
    outcome, stopping = raw["outcome"], raw.get("stopping")
    # An older agent wrote the grace alone.
    plan = raw.get("plan") or {"grace_s": raw["stop_grace_s"]}
    return Remembered(
        attempt_id=str(raw["attempt_id"]),
        epoch=int(raw["epoch"]),
        job_id=str(raw["job_id"]),
        gpu_uuids=tuple(raw["gpu_uuids"]),
        ports=tuple(raw["ports"]),
        plan=StopPlan(**plan),
        container_id=str(raw["container_id"]),
        outcome=_outcome(outcome) if outcome else None,
        released=bool(raw["released"]),
        stopping=Stopping(**stopping) if stopping else None,
    )


def _outcome(raw: dict[str, Any]) -> Outcome:
    return Outcome(**{**raw, "xids": tuple(raw.get("xids", ()))})
