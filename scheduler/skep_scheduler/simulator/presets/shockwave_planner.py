"""What plans the rounds of the preset `shockwave` under Shockwave's own policy.

A new plan is made where a job came or ended, and after eight rounds. Habits of the artifact: the
clock of a plan counts rounds of 120 s; the submission of a job counts from the round in which it
came; epochs last whole seconds; of the progress of a job, the epochs that are complete count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from skep_scheduler.policies import shockwave as rule
from skep_scheduler.simulator.presets import batch_sizes
from skep_scheduler.simulator.presets.shockwave import ROUND_S, EpochJob
from skep_scheduler.simulator.workload import WorkloadError

REPLAN_ROUNDS = 8


@dataclass(slots=True)
class Known:
    """What the planner keeps of an active job; `fair` are the rounds and estimates of its end."""

    job: EpochJob
    came: float
    epochs_s: list[float]
    done: int = 0
    fair: list[tuple[int, float]] = field(default_factory=list)

    def remaining_s(self) -> float:
        return rule.remaining_s(self.job.batches, self.epochs_s, self.done)


class Shockwave:
    def __init__(self, gpus: int, settings: rule.Settings) -> None:
        self._gpus, self._settings = gpus, settings
        self._jobs: dict[int, Known] = {}
        self._planned: list[list[int]] = []  # numbers of jobs, from the present round on
        self._round = self._since = 0
        self._replan = self._shares_changed = True

    def came(self, job: EpochJob, now: float) -> None:
        epochs_s = [float(max(1, round(time))) for time in job.epochs_s]
        self._jobs[job.number] = Known(job, now, epochs_s)
        self._replan = self._shares_changed = True

    def ran(self, ran: Sequence[EpochJob], ended: Sequence[EpochJob]) -> None:
        for job in ended:
            del self._jobs[job.number]
            self._replan = self._shares_changed = True
        for job in ran:
            if job.number in self._jobs:
                known = self._jobs[job.number]
                done = job.made // batch_sizes.steps_per_epoch(job.model, job.batch)
                known.done = min(done, len(known.epochs_s))
        self._round += 1
        self._since += 1
        self._planned = self._planned[1:]
        if self._since >= REPLAN_ROUNDS:
            self._since, self._replan = 0, True

    def choose(self, jobs: Sequence[EpochJob], now: float) -> list[EpochJob]:
        if self._replan or not self._planned:
            self._planned, self._replan = self._plan(), False
        return [self._jobs[number].job for number in self._planned[0] if number in self._jobs]

    def _plan(self) -> list[list[int]]:
        jobs = list(self._jobs.values())
        if self._shares_changed:
            share = min(1.0, self._gpus / len(jobs))
            for known in jobs:
                spent = sum(known.epochs_s[: known.done])
                end = known.came + (spent + known.remaining_s()) / share
                known.fair.append((self._round, end))
            self._shares_changed = False
        wishes = [
            rule.Wish(
                known.job.gpus,
                len(known.epochs_s),
                known.done,
                sum(known.epochs_s[: known.done + 1]) / len(known.epochs_s[: known.done + 1]),
                known.remaining_s(),
                rule.running_mean(known.fair, self._round),
            )
            for known in jobs
        ]
        now = float(self._round * ROUND_S)
        try:
            rounds = rule.plan(wishes, now, ROUND_S, self._gpus, self._settings)
        except ImportError:
            raise WorkloadError(
                "shockwave solves a program; it needs scipy: pip install 'skep[policies]'",
                "missing_library",
            ) from None
        return [[jobs[position].job.number for position in members] for members in rounds]


def read_settings(path: Path) -> rule.Settings:
    """Read a configuration of the artifact (JSON). Raises `WorkloadError`."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
        settings = rule.Settings(
            future_rounds=int(data["future_rounds"]),
            k=float(data["k"]),
            lam=float(data["lambda"]),
            rhomax=float(data["rhomax"]),
            bases=tuple(float(base) for base in data["log_approximation_bases"]),
            rel_gap=float(data.get("solver_rel_gap", 1e-3)),
            timeout_s=float(data.get("solver_timeout", 15)),
        )
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}", "bad_profile") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorkloadError(
            f"{path}: not a configuration of Shockwave: {error!r}", "bad_profile"
        ) from None
    return with_(settings, {})


def with_(settings: rule.Settings, changes: Mapping[str, float]) -> rule.Settings:
    """Return settings with other numbers. Raises `WorkloadError` for those out of range."""
    changed = replace(
        settings,
        future_rounds=int(changes.get("future_rounds", settings.future_rounds)),
        k=changes.get("k", settings.k),
        lam=changes.get("lambda", settings.lam),
        rhomax=changes.get("rhomax", settings.rhomax),
    )
    bases = changed.bases
    if not (
        1 <= changed.future_rounds <= 200
        and 0 < changed.k <= 1e9
        and 0 <= changed.lam <= 100
        and 0 < changed.rhomax <= 100
        and changed.timeout_s > 0
        and len(bases) > 1
        and bases[0] == 0
        and bases[-1] >= 1
        and all(a < b for a, b in pairwise(bases))
    ):
        raise WorkloadError(
            "shockwave: future_rounds is 1 to 200, k above 0, lambda 0 to 100, rhomax above 0, and "
            "the bases of its logarithm ascend from 0 to 1",
            "bad_policy_parameter",
        )
    return changed
