"""Numbers as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from skep_scheduler.resources import Resources


def amount(model: str | None, need: Resources) -> str:
    """For example "4 A100, 16 CPUs and 64 GiB"; "" for nothing."""
    parts = [f"{need.gpus} {model}"] if model is not None else []
    parts += [cpus(need.cpu_millis)] if need.cpu_millis else []
    parts += [memory(need.memory_mb)] if need.memory_mb else []
    return listing(parts)


def cpus(millis: int) -> str:
    return "1 CPU" if millis == 1000 else f"{millis / 1000:g} CPUs"


def memory(mebibytes: int) -> str:
    whole = mebibytes % 1024 == 0
    return f"{mebibytes // 1024} GiB" if whole else f"{mebibytes} MiB"


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def tasks(n: int) -> str:
    return count(n, "task")


def listing(parts: Sequence[str]) -> str:
    """For example "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def pieces(sizes: Sequence[tuple[int, int]]) -> str:
    """From (GPUs, nodes): "4+2+2 on 3 nodes", or on many nodes "1 x 8, 40 x 1 on 41 nodes"."""
    nodes = sum(n for _, n in sizes)
    if nodes <= 8:
        lie = "+".join(str(gpus) for gpus, n in sizes for _ in range(n))
    else:
        lie = ", ".join(f"{n} x {gpus}" for gpus, n in sizes)
    return f"{lie} on {count(nodes, 'node')}"


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
