"""Applications as Sia's profiles have them: true step times, gradient statistics and epochs.

A profile is a folder by application with CSV files:

- `placements-TYPE.csv`: step and sync time by GPUs on each node (as digits) and local batch
- `scalability-TYPE.csv`: the same by number of nodes and of GPUs, for sizes beyond
- `validation-BATCH.csv`: one row an epoch with progress and gradient statistics at this batch

What the files do not say (restart times, slow-down against the profile) is in `FACTS`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import LinearNDInterpolator

from skep_scheduler.policies.goodput import Speed, gain
from skep_scheduler.simulator.workload import WorkloadError

Array = np.ndarray[Any, Any]
Counts = tuple[int, ...]  # GPUs on each node
Seen = tuple[tuple[int, int, int], tuple[float, float]]  # (nodes, GPUs, m), (T_acc, T_step)
MAX_NODES = 16
PROFILED_NODES = {"aws": 16, "azure": 5, "dgx": 2, "dgx-ext": 2, "quad": 1, "rtx": 3}


@dataclass(frozen=True, slots=True)
class Facts:
    """restart_s: what a start or restart takes; believed_s: what the policy thinks that it takes;
    slow_down: of the simulated job against its profile; most: the largest local batch by GPU type
    that policies know, where it is not that of the file."""

    restart_s: int
    believed_s: int
    slow_down: float
    most: dict[str, int] = field(default_factory=dict)


FACTS = {
    "cifar10": Facts(50, 30, 1.8),
    "bert": Facts(120, 120, 1.2),
    "deepspeech2": Facts(25, 25, 1.2, {"rtx": 57}),
    "yolov3": Facts(80, 45, 1.2),
    "imagenet": Facts(250, 250, 1.2),
    "ncf": Facts(15, 30, 1.5),
}


class StepTimes:
    """The step times of one application on one GPU type."""

    def __init__(self, folder: Path, gpu_type: str) -> None:
        self._where = f"{folder.name} on {gpu_type}"
        rows = _rows(folder / f"placements-{gpu_type}.csv", "placement", "local_bsz")
        self._by_placement: dict[Counts, Array] = {}
        averaged: dict[tuple[float, ...], list[tuple[float, float]]] = {}
        found: dict[Counts, list[tuple[float, float, float]]] = {}
        self.largest: dict[int, int] = {}  # local batch by number of GPUs
        # alone_rate: samples a second of one GPU, as policies know it before a job ran
        for placement, local, step, sync in rows:
            counts = tuple(int(digit) for digit in placement)
            found.setdefault(counts, []).append((float(local), float(step), float(sync)))
            key = (float(len(counts)), float(sum(counts)), float(local))
            averaged.setdefault(key, []).append((float(step), float(sync)))
            largest = max(self.largest.get(sum(counts), 0), int(float(local)))
            self.largest[sum(counts)] = largest
        for counts, table in found.items():
            self._by_placement[counts] = np.array(sorted(table)).T
        alone = found.get((1,), [])
        self.alone_rate = max((row[0] for row in alone), default=1.0) / max(
            (row[1] for row in alone), default=1.0
        )
        locals_ = [float(row[1]) for row in rows]
        self.least, self.most = int(min(locals_)), int(max(locals_))
        self._points = [(*key, *np.mean(values, axis=0)) for key, values in averaged.items()]
        more = _rows(folder / f"scalability-{gpu_type}.csv", "num_nodes", "num_replicas")
        self._scalability = [tuple(float(cell) for cell in row) for row in more]
        self._surface: LinearNDInterpolator | None = None
        self._known: dict[tuple[Counts, int], tuple[float, float]] = {}

    def times(self, counts: Counts, local: int) -> tuple[float, float]:
        """Return step and sync time with `counts` GPUs on the nodes and a local batch. Raises
        `WorkloadError` where the profile does not say."""
        counts = least_rotation(counts)
        key = counts, local
        if key not in self._known:
            self._known[key] = self._look_up(counts, local)
        return self._known[key]

    def largest_local(self, counts: Counts) -> int:
        """Return the largest local batch that was measured at this size."""
        gpus = sum(counts)
        if gpus in self.largest:
            return self.largest[gpus]
        return int(
            max(
                (row[2] for row in self._scalability if row[0] >= len(counts) and row[1] >= gpus),
                default=self.most,
            )
        )

    def _look_up(self, counts: Counts, local: int) -> tuple[float, float]:
        table = self._by_placement.get(counts)
        if table is not None:
            if not table[0][0] <= local <= table[0][-1]:
                raise self._error(counts, local)
            return tuple(float(np.interp(local, table[0], table[i])) for i in (1, 2))  # type: ignore[return-value]
        if self._surface is None:
            points = np.array([*self._points, *self._scalability])
            self._surface = LinearNDInterpolator(points[:, :3], points[:, 3:])
        nodes = min(len(counts), MAX_NODES)
        step, sync = (float(value) for value in self._surface((nodes, sum(counts), local)))
        if step != step:
            raise self._error(counts, local)
        return step, sync

    def _error(self, counts: Counts, local: int) -> WorkloadError:
        return WorkloadError(
            f"profile of {self._where}: no step time for {counts} GPUs on its nodes and a local "
            f"batch of {local}",
            "bad_profile",
        )


class Application:
    """One application. `epochs` are its epochs, `ends` the progress at which each ends, in steps at
    the initial batch."""

    def __init__(self, folder: Path, gpu_types: Sequence[str]) -> None:
        self.name = folder.name
        facts = FACTS.get(self.name)
        if facts is None:
            raise WorkloadError(
                f"no facts of the application {self.name!r}; there are {', '.join(FACTS)}",
                "bad_profile",
            )
        self.facts = facts
        tables = {}
        for path in folder.glob("validation-*.csv"):
            if (number := re.fullmatch(r"validation-(\d+)", path.stem)) is not None:
                tables[int(number[1])] = np.array(
                    [[float(cell) for cell in row] for row in _rows(path, "progress", "grad_sqr")]
                )
        if not tables:
            raise WorkloadError(f"{folder}: no validation-BATCH.csv", "bad_profile")
        self.batches = sorted(tables)
        self.initial, self.largest = self.batches[0], self.batches[-1]
        self.epochs = min(len(table) for table in tables.values())
        columns = [tables[batch][: self.epochs] for batch in self.batches]
        self.ends = [float(end) for end in np.min([table[:, 0] for table in columns], axis=0)]
        self._noise = [[(float(r[1]), float(r[2])) for r in table] for table in columns]
        self.times = {gpu_type: StepTimes(folder, gpu_type) for gpu_type in gpu_types}
        # What jobs learned, by what they saw: times have no noise, so that jobs see the same.
        self.fitted: dict[frozenset[Seen], Speed] = {}

    def noise(self, batch: float, epoch: int) -> tuple[float, float]:
        """Return squared norm and variance of the gradient in an epoch, at a global batch."""
        above = next((i for i, known in enumerate(self.batches) if known >= batch), -1)
        if above == -1 or self.batches[above] == batch or above == 0:
            return self._noise[above][epoch]
        low, high = self.batches[above - 1], self.batches[above]
        part = (batch - low) / (high - low)
        below, over = self._noise[above - 1][epoch], self._noise[above][epoch]
        return below[0] + part * (over[0] - below[0]), below[1] + part * (over[1] - below[1])

    def believed_most(self, gpu_type: str) -> int:
        """Return the largest local batch on a GPU type, as policies know it."""
        return self.facts.most.get(gpu_type, self.times[gpu_type].most)

    def rate(self, noise: tuple[float, float], batch: int, step_s: float) -> float:
        """Return progress a second: initial steps, slowed down as the simulated job is."""
        sigma = batch / self.initial
        return float(gain(*noise, sigma)) / step_s / self.facts.slow_down


def least_rotation(counts: Counts) -> Counts:
    return min(counts[i:] + counts[:i] for i in range(len(counts)))


def read_applications(
    folder: Path, names: Sequence[str], gpu_types: Sequence[str]
) -> dict[str, Application]:
    """Read the profiles of applications. Raises `WorkloadError`."""
    made = {}
    for name in sorted(set(names)):
        if not (folder / name).is_dir():
            raise WorkloadError(f"{folder}: no profile of the application {name!r}", "bad_profile")
        made[name] = Application(folder / name, gpu_types)
    return made


COLUMNS = {
    "placement": ("placement", "local_bsz", "step_time", "sync_time"),
    "num_nodes": ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"),
    "progress": ("progress", "grad_sqr", "grad_var"),
}


def _rows(path: Path, first: str, second: str) -> list[list[str]]:
    """Return the cells of the columns that start with `first`; all but a placement are numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.DictReader(file)
            missing = set(COLUMNS[first]) - set(lines.fieldnames or ())
            if missing:
                raise WorkloadError(f"{path}, line 1: no column {min(missing)}", "bad_profile")
            rows = []
            for cells in lines:
                row = [cells[column] or "" for column in COLUMNS[first]]
                for cell in row:
                    if not np.isfinite(float(cell)):
                        raise ValueError(f"{cell!r} is not a finite number")
                rows.append(row)
    except (OSError, ValueError) as error:
        if isinstance(error, WorkloadError):
            raise
        raise WorkloadError(f"{path}: not a profile: {error}", "bad_profile") from None
    if not rows:
        raise WorkloadError(f"{path}: no rows", "bad_profile")
    return rows
