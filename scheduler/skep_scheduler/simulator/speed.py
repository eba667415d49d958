"""How fast jobs run: throughput profiles of the artifacts, and slow-downs that were measured.

A profile is steps per second by model, global batch and number of GPUs of one type. Missing
sizes between two known ones are linear in the logarithm of the size; a size that is marked as
impossible (`nan`, 0 or empty) stays impossible.
"""

from __future__ import annotations

import csv
import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, log2
from pathlib import Path
from typing import Any

from skep_scheduler.simulator.workload import WorkloadError

# Jeon et al., USENIX ATC 2019, table 4: ResNet-50 on two GPUs in images per second, as parts of
# the speed on one server without neighbours (114.8).
PHILLY_ONE_SERVER = 1.0
PHILLY_TWO_SERVERS = 98.0 / 114.8
PHILLY_ONE_SERVER_SHARED = 75.6 / 114.8
PHILLY_TWO_SERVERS_SHARED = 74.1 / 114.8
# Speed of a job on 1, 2, ... nodes; the last is for more.
LOCALITIES = {"none": (), "philly": (PHILLY_ONE_SERVER, PHILLY_TWO_SERVERS)}


def read_speeds(text: str) -> dict[str, float]:
    """Return how fast GPUs are by model in small letters, of `V100=1,A100=2.1`; traces were
    recorded at speed 1. Raises `WorkloadError`."""
    speeds = {}
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*([^=\s]+)\s*=\s*(\d{1,6}(?:\.\d{1,6})?)\s*", part)
        if match is None or not 0.001 <= float(match[2]) <= 1000:
            raise WorkloadError(
                f"--speeds {text!r}: {part!r} is not MODEL=SPEED, with a speed from 0.001 to 1000",
                "bad_option",
            )
        speeds[match[1].lower()] = float(match[2])
    return speeds


@dataclass(frozen=True, slots=True)
class Profiles:
    """`table` has steps per second by (model, global batch), and then by number of GPUs."""

    name: str
    table: Mapping[tuple[str, int], Mapping[int, float]]

    def sizes(self, model: str, batch: int) -> Mapping[int, float]:
        """Return steps per second by number of GPUs. Raises `WorkloadError`."""
        try:
            return self.table[model, batch]
        except KeyError:
            raise WorkloadError(
                f"profile {self.name} has no model {model!r} with batch {batch}; it has "
                f"{sorted({name for name, _ in self.table})}",
                "bad_profile",
                model=model,
                batch=batch,
            ) from None

    def rate(self, model: str, batch: int, gpus: int) -> float:
        """Return steps per second, 0 where it cannot run. Raises `WorkloadError`."""
        return interpolated(self.sizes(model, batch), gpus)


def interpolated(sizes: Mapping[int, float], gpus: int) -> float:
    if gpus in sizes:
        return sizes[gpus]
    known = sorted(sizes)
    at = bisect_left(known, gpus)
    if at in (0, len(known)):
        return sizes[known[min(at, len(known) - 1)]] if known else 0.0
    low, high = known[at - 1], known[at]
    part = (log2(gpus) - log2(low)) / (log2(high) - log2(low))
    return sizes[low] + part * (sizes[high] - sizes[low])


def read_profiles(folder: Path) -> Profiles:
    """Read the files MODEL.csv of a folder: a global batch size, then steps per second on 1, 2, 4,
    ... GPUs. Raises `WorkloadError`."""
    table: dict[tuple[str, int], dict[int, float]] = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
        if not rows or rows[0][0] != "global_batch_size":
            raise WorkloadError(f"{path}, line 1: no column global_batch_size", "bad_profile")
        sizes = [int(cell) for cell in rows[0][1:] if cell]
        for number, row in enumerate(rows[1:], 2):
            if not any(row):
                continue
            try:
                rates = [float(cell or "nan") for cell in row[1:]]
                batch = int(row[0])
            except ValueError as error:
                raise WorkloadError(f"{path}, line {number}: {error}", "bad_profile") from None
            good = {
                gpus: rate
                for gpus, rate in zip(sizes, rates, strict=False)
                if isfinite(rate) and rate > 0
            }
            table[path.stem, batch] = good
    if not table:
        raise WorkloadError(f"{folder}: no profiles (MODEL.csv)", "bad_profile")
    return Profiles(folder.name, table)


JobType = tuple[str, int]  # (name with its batch size, GPUs)


@dataclass(frozen=True, slots=True)
class TypedProfiles:
    """Steps per second by GPU type and job type, alone; and beside another job, both rates."""

    alone: Mapping[str, Mapping[JobType, float]]
    beside: Mapping[str, Mapping[tuple[JobType, JobType], tuple[float, float]]]


def read_typed_profiles(path: Path) -> TypedProfiles:
    """Read a throughput file of Gavel or Shockwave. Raises `WorkloadError`."""
    try:
        data: dict[str, dict[str, dict[str, Any]]] = json.loads(
            path.read_text(encoding="utf-8-sig")
        )
        alone: dict[str, dict[JobType, float]] = {}
        beside: dict[str, dict[tuple[JobType, JobType], tuple[float, float]]] = {}
        for gpu_type, rows in data.items():
            own = alone[gpu_type] = {}
            pairs = beside[gpu_type] = {}
            for name, cells in rows.items():
                mine = _job_type(name)
                for other, rate in cells.items():
                    if other == "null":
                        own[mine] = float(rate)
                    else:
                        pairs[mine, _job_type(other)] = float(rate[0]), float(rate[1])
    except (OSError, ValueError, AttributeError, TypeError, IndexError) as error:
        raise WorkloadError(f"{path}: not a throughput file: {error}", "bad_profile") from None
    return TypedProfiles(alone, beside)


def _job_type(name: str) -> JobType:
    match = re.fullmatch(r"\('(.*)', (\d+)\)", name)
    if match is None:
        raise ValueError(f"{name!r} is not ('NAME', GPUS)")
    return match[1], int(match[2])
