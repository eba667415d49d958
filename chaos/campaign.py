"""A run: jobs all the time, one fault after the other, recovery measured, everything checked."""

from __future__ import annotations

import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import psycopg
from chaos.box import Box
from chaos.checks import Checks
from chaos.faults import Fault, drawn
from chaos.workload import ENDED, Job, Workload

RECOVERED_WITHIN_S = 90.0
GOAL_S = 10.0
FINISHED_WITHIN_S = 240.0
PAUSE_S = (0.2, 2.0)  # between the recovery from one fault and the next
PROBE_PAUSE_S = 0.1
STEP_S = 0.4
LOOK_S = 2.0


@dataclass(slots=True)
class Outcome:
    fault: str
    recovery_s: float


@dataclass(slots=True)
class Report:
    """What a run has to say. Without violations it went well."""

    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    jobs: int = 0
    attempts: int = 0
    seconds: float = 0.0

    def table(self) -> str:
        """Return the Markdown table: fault, count, median and maximum of the recovery."""
        rows = ["| Fault | Count | Recovery, p50 (s) | max (s) |", "|---|---:|---:|---:|"]
        by_fault: dict[str, list[float]] = {}
        for outcome in self.outcomes:
            by_fault.setdefault(outcome.fault, []).append(outcome.recovery_s)
        for name, times in sorted(by_fault.items()):
            rows.append(_row(name, times))
        if self.outcomes:
            rows.append(_row("**all**", [outcome.recovery_s for outcome in self.outcomes]))
        return "\n".join(rows)

    def sentence(self) -> str:
        """Return the same in a line."""
        return (
            f"Seed {self.seed}: {len(self.outcomes)} faults in {self.seconds:.0f} s, {self.jobs} "
            f"jobs, {self.attempts} containers, recovery p99 {self.p99():.1f} s, "
            f"{len(self.violations)} violations."
        )

    def p99(self) -> float:
        times = sorted(outcome.recovery_s for outcome in self.outcomes)
        return times[min(len(times) - 1, int(len(times) * 0.99))] if times else 0.0


def _row(name: str, times: list[float]) -> str:
    return f"| {name} | {len(times)} | {statistics.median(times):.1f} | {max(times):.1f} |"


class Campaign:
    def __init__(self, box: Box, seed: int, say: Callable[[str], None]) -> None:
        self._box = box
        self._say = say
        self._chance = random.Random(f"{seed} faults")
        self._api = box.stack.api()
        self._api.timeout = httpx.Timeout(10)
        self.workload = Workload(self._api, seed, len(box.nodes), box.gpus, 4 * len(box.nodes))
        self.checks = Checks(box, self.workload)
        self.report = Report(seed)
        self._probes = box.stack.api()
        self._probes.timeout = httpx.Timeout(3)
        self._probe = Workload(self._probes, seed, len(box.nodes), box.gpus, 0)
        self._over = threading.Event()
        self._enough = threading.Event()
        self._no_more_jobs = threading.Event()

    def run(self, faults: int, names: list[str], seconds: float) -> Report:
        started = time.monotonic()
        thread = threading.Thread(target=self._work, name="jobs")
        thread.start()
        try:
            for number, fault in enumerate(drawn(self._chance, self._box, faults, names), 1):
                if self._enough.is_set() or time.monotonic() - started > seconds:
                    break
                self._one(number, fault)
                time.sleep(self._chance.uniform(*PAUSE_S))
            self._no_more_jobs.set()
            self._finish()
        finally:
            self._over.set()
            thread.join(60)
        self.report.violations += self.checks.all_violations()
        self.report.jobs = len(self.workload.jobs)
        self.report.attempts = len(self._box.ledger.runs)
        self.report.seconds = time.monotonic() - started
        return self.report

    def end_early(self) -> None:
        """Make no more faults; all is checked at the end as always."""
        self._enough.set()

    def _work(self) -> None:
        """Jobs and checks go on all the time; what is broken now answers later."""
        looked = 0.0
        while not self._over.wait(STEP_S):
            with suppress(httpx.TransportError):
                self.workload.step(submit=not self._no_more_jobs.is_set())
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                with suppress(psycopg.Error, httpx.HTTPError):
                    self.checks.look()
                    self.checks.look_at_logs()

    def _one(self, number: int, fault: Fault) -> None:
        before = len(self.checks.all_violations())
        since = fault.run(self._box, self._chance) or time.monotonic()
        self.checks.faulted()
        took = self._recovery(fault, since)
        self.report.outcomes.append(Outcome(fault.name, round(took, 2)))
        self._say(f"{number:4}  {fault.name:<30} {took:6.1f} s")
        for text in self.checks.all_violations()[before:]:
            self._say(f"      VIOLATION {text}")

    def _recovery(self, fault: Fault, since: float) -> float:
        """Wait until all works again, and return how long that took: every part runs, every node is
        online, and a job that was submitted since has succeeded, with its whole log."""
        probe = Job("probe", probe_body(), {"SUCCEEDED"})
        within_s = RECOVERED_WITHIN_S * self._box.timing.patience
        deadline = time.monotonic() + within_s
        while not self._is_well(probe):
            if time.monotonic() > deadline:
                text = f"not recovered from {fault.name!r} within {within_s:.0f} s"
                self.checks.violations.append(f"{text}: {self._what_is_not_well(probe)}")
                break
            time.sleep(PROBE_PAUSE_S)
        return time.monotonic() - since

    def _is_well(self, probe: Job) -> bool:
        try:
            if not probe.id and not self._probe.submit(probe):
                return False
            if probe.seen not in ENDED:
                probe.seen = (
                    self._probes.get(f"/jobs/{probe.id}").raise_for_status().json()["state"]
                )
            return (
                probe.seen in ENDED
                and self._has_whole_log(probe)
                and not self._box.missing_parts()
                and not self._box.offline_nodes()
            )
        except (httpx.HTTPError, psycopg.Error):
            return False

    def _has_whole_log(self, probe: Job) -> bool:
        log = self._probes.get(f"/jobs/{probe.id}/logs").raise_for_status().json()
        return bool(log["complete"])

    def _what_is_not_well(self, probe: Job) -> str:
        parts = ", ".join(self._box.missing_parts()) or "all parts run"
        try:
            offline = ", ".join(self._box.offline_nodes()) or "no node is offline"
        except psycopg.Error as error:
            offline = f"no database: {error}"
        return f"{parts}; {offline}; probe {probe.id or 'not accepted'} {probe.seen}"

    def _finish(self) -> None:
        """Wait for the end of all jobs, then check all that ever ran."""
        within_s = FINISHED_WITHIN_S * self._box.timing.patience
        deadline = time.monotonic() + within_s
        while self.workload.unfinished and time.monotonic() < deadline:
            time.sleep(STEP_S)
        for job in self.workload.unfinished:
            text = f"job {job.body['name']} ({job.id}) is {job.seen or 'unknown'}"
            self.checks.violations.append(f"{text} {within_s:.0f} s after the last fault")
        self._until_released()
        self.checks.finish()

    def _until_released(self) -> None:
        """The last containers may be stopping, and the last logs be under way."""
        deadline = time.monotonic() + FINISHED_WITHIN_S / 4
        leases = "SELECT count(*) FROM jobs_taskattempt WHERE released_at IS NULL"
        while time.monotonic() < deadline:
            with suppress(psycopg.Error):
                if self._box.query(leases) == [(0,)] and not self._box.ledger.running():
                    return
            time.sleep(STEP_S)


def probe_body() -> dict[str, object]:
    """A job that needs no GPU and goes first, so that it waits for nothing but what is broken."""
    return {
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "chaos/image:1"}],
        "taskRoles": {
            "worker": {
                "instances": 1,
                "dockerImage": "image",
                "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 64},
                "commands": ["mock run_for=0 log_lines=3"],
            }
        },
        "extras": {"hivedScheduler": {"jobPriorityClass": "prod"}},
    }


def stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write(report: Report, path: Path) -> None:
    path.write_text(json.dumps(asdict(report), indent=1))
