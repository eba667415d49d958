"""CPU time and memory of processes, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

HERTZ = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time of these processes so far."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / HERTZ


def cpu_seconds_of_tree(pid: int) -> float:
    """CPU time of a process, its descendants, and those of them that have ended."""
    fields: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = path.read_text().rpartition(")")
            fields[int(name.split(" ", 1)[0])] = rest.split()
    found, waiting = 0, [pid]
    while waiting:
        parent = waiting.pop()
        found += sum(map(int, fields[parent][11:15])) if parent in fields else 0
        waiting += [child for child, of in fields.items() if int(of[1]) == parent]
    return found / HERTZ


def memory_mb(pids: Iterable[int]) -> float:
    """Return the proportional memory of these processes, with shared pages counted once."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(x.split()[1]) for x in text.splitlines() if x.startswith("Pss:"))
    return total / 1024


def resident_mb(pid: int) -> dict[str, float]:
    """Return the resident memory of a process, now and at its `peak`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {
        name: int(fields[field].split()[0]) / 1024
        for name, field in (("now", "VmRSS"), ("peak", "VmHWM"))
    }
