"""Reads job traces: CSV files of our own and of published traces, tab-separated ones of Gavel and
Shockwave, and what Slurm's `sacct --parsable2` prints. The format is known by the header.

A line that cannot be read is an error with file, line, column and reason; no line is dropped.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from skep_scheduler.policies.recurrence import stem
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

# The first name of each list is the documented one; the others are those of published traces.
COLUMNS = {
    "id": ("id", "job_id", "name"),
    "submit_s": ("submit_s", "submit_time", "submission_time", "timestamp", "time"),
    "duration_s": ("duration_s", "duration"),
    "gpus": ("gpus", "num_gpus", "num_gpu"),
    "vc": ("vc", "cluster"),
    "user": ("user",),
    "group": ("group", "name", "job_name"),
    "priority": ("priority",),
    "model": ("model", "model_name"),
    "batch": ("batch", "batch_size"),
    "iterations": ("iterations", "iteration", "num_iteration"),
    "deadline_s": ("deadline_s", "deadline", "ddl"),
}
REQUIRED = ("submit_s", "duration_s", "gpus")
MOST = 1e13  # of any number; milliseconds since the epoch are less
MOST_GPUS = 100_000  # of one job
MOST_PRIORITY = 1_000_000
ENDED_IN_SLURM = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a file in the order of its lines. `format` is the name of its reader."""

    name: str
    format: str
    jobs: tuple[TraceJob, ...]
    path: Path | None = None


def read_trace(path: Path) -> list[TraceJob]:
    """Return the jobs of a file by submission, the first of them submitted at 0 s.

    Raises `WorkloadError`.
    """
    jobs = read(path).jobs
    start = min(job.submit_s for job in jobs)
    moved = (replace(job, submit_s=job.submit_s - start) for job in jobs)
    return sorted(moved, key=lambda job: (job.submit_s, job.id))


def read(path: Path) -> Trace:
    """Return the jobs of a file, in its order and on its clock. Raises `WorkloadError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise WorkloadError(f"{path}: not a text file in UTF-8") from None
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from None
    if not text.strip():
        raise WorkloadError(f"{path}: the file is empty; it needs a header and a line for each job")
    lines = text.splitlines()
    first = lines[0]
    if "\t" in first:
        name, jobs = _tabbed(path, lines)
    elif "|" in first:
        name, jobs = "sacct", _sacct(path, lines)
    else:
        try:
            name, jobs = _by_header(path, lines)
        except csv.Error as error:
            raise WorkloadError(f"{path}: not a CSV file: {error}") from None
    if not jobs:
        raise WorkloadError(f"{path}: no jobs; it needs a line for each job behind the header")
    return Trace(path.name, name, tuple(_with_own_ids(jobs)), path)


class Row:
    """One line of a file with named columns. `columns` maps our names to those of the file."""

    def __init__(
        self, path: Path, line: int, cells: Mapping[str, str], columns: Mapping[str, str]
    ) -> None:
        self.path, self.line, self._cells, self._columns = path, line, cells, columns

    def text(self, field: str, default: str = "") -> str:
        return (self._cells.get(self._columns.get(field, field)) or default).strip()

    def number(self, field: str, default: str = "") -> float:
        try:
            value = float(self.text(field, default))
        except ValueError:
            raise self.error(field, "is not a number") from None
        if math.isnan(value):
            raise self.error(field, "is not a number")
        if abs(value) > MOST:
            raise self.error(field, f"is out of range: at most {MOST:g} can be simulated")
        return value

    def whole(self, field: str, default: str = "", most: float = MOST) -> int:
        value = self.number(field, default)
        if abs(value) > most:
            raise self.error(field, f"is out of range: it is at most {most:g}")
        return int(value)

    def at_least(
        self, field: str, least: float, *, whole: bool = False, default: str = ""
    ) -> float:
        """Return a number of at least `least`; a `least` of 0 excludes 0 itself."""
        value = self.number(field, default)
        low = value <= 0 if least == 0 else value < least
        if low or (whole and value != int(value)):
            number = "a whole number" if whole else "a number"
            bound = "above 0" if least == 0 else f"of at least {least:g}"
            raise self.error(field, f"is out of range: it has to be {number} {bound}")
        return value

    def not_negative(self, field: str, default: str = "") -> float:
        value = self.number(field, default)
        if value < 0:
            raise self.error(field, "is out of range: it cannot be negative")
        return value

    def gpus(self, field: str = "gpus", least: float = 1) -> int:
        value = self.at_least(field, least, whole=True)
        if value > MOST_GPUS:
            raise self.error(field, f"is out of range: a job has at most {MOST_GPUS:,} GPUs")
        return int(value)

    def moment(self, field: str) -> float:
        """Return a number of seconds, or an ISO 8601 date as seconds since the epoch."""
        text = self.text(field)
        if re.match(r"\d{4}-\d\d-\d\d", text) is None:
            return self.not_negative(field)
        try:
            return _seconds(text)
        except (ValueError, OverflowError):
            raise self.error(field, "is not a date") from None

    def error(self, field: str, what: str) -> WorkloadError:
        column = self._columns.get(field, field)
        where = f"{self.path}, line {self.line}, column {column}"
        return WorkloadError(f"{where}: {self.text(field)!r} {what}", line=self.line, column=column)


def _finite(text: str) -> float:
    value = float(text)
    if not abs(value) <= MOST:
        raise ValueError(text)
    return value


def _seconds(text: str) -> float:
    """Dates without a zone are taken as UTC, so that all machines read the same."""
    date = datetime.fromisoformat(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _by_header(path: Path, lines: list[str]) -> tuple[str, list[TraceJob]]:
    rows = csv.DictReader(lines)
    header = [name.strip() for name in rows.fieldnames or ()]
    rows.fieldnames = header
    name, read_row = next(
        ((name, made) for marks, name, made in FORMATS if set(marks) <= set(header)),
        ("csv", _generic),
    )
    columns = _columns(path, header, REQUIRED if name == "csv" else ())
    jobs: list[TraceJob] = []
    for cells in rows:
        if any(isinstance(value, str) and value.strip() for value in cells.values()):
            jobs.append(read_row(Row(path, rows.line_num, cells, columns), len(jobs)))
    return name, jobs


def _columns(path: Path, header: Sequence[str], required: Iterable[str]) -> dict[str, str]:
    found = {}
    for field, names in COLUMNS.items():
        name = next((name for name in names if name in header), None)
        if name is not None:
            found[field] = name
        elif field in required:
            raise WorkloadError(f"{path}, line 1: no column {names[0]}; there are {list(header)}")
    return found


def _generic(row: Row, index: int) -> TraceJob:
    deadline = row.text("deadline_s")
    return TraceJob(
        row.text("id", f"job-{row.line - 1}"),
        row.moment("submit_s"),
        row.at_least("duration_s", 0),
        row.gpus(),
        row.text("vc"),
        row.text("user"),
        row.whole("priority", "0", MOST_PRIORITY),
        model=row.text("model"),
        batch=row.whole("batch", "0"),
        iterations=row.not_negative("iterations", "0"),
        deadline_s=row.number("deadline_s") if deadline else None,
        gpu_model=row.text("gpu_model"),
        group=stem(row.text("group")),
    )


def _muri(row: Row, index: int) -> TraceJob:
    """Times are in ms. Its priorities are classes: 0 is guaranteed, 1 opportunistic."""
    return TraceJob(
        row.text("id"),
        row.not_negative("submit_time") / 1000,
        row.at_least("duration", 0) / 1000,
        row.gpus(),
        priority=row.whole("priority", "0", MOST_PRIORITY),
        model=row.text("model"),
        batch=row.whole("batch", "0"),
        iterations=row.at_least("iterations", 0),
        iteration_s=row.at_least("iteration_time", 0) * 1.015 / 1000,
        stages_s=(
            row.not_negative("resource_time_0") / 1000,
            row.not_negative("resource_time_1") / 1000,
            row.not_negative("resource_time_2") / 1000,
        ),
    )


def _elasticflow(row: Row, index: int) -> TraceJob:
    best_effort = row.text("best_effort", "0") == "1"
    return TraceJob(
        row.text("id"),
        row.moment("submit_s"),
        row.at_least("duration", 0),
        row.gpus(),
        model=row.text("model"),
        batch=int(row.at_least("batch", 1, whole=True)),
        iterations=row.at_least("iterations", 0),
        deadline_s=None if best_effort else row.number("deadline_s"),
    )


def _chronus(row: Row, index: int) -> TraceJob:
    """Expected times count from submission; a strict deadline has one of them.
    A job may have no GPU."""
    submit = row.moment("submit_time")
    try:
        times = [_finite(part) for part in row.text("expect_time_list").split("-")]
        values = [_finite(part) for part in row.text("expect_value_list").split("-")]
    except ValueError:
        raise row.error("expect_time_list", "is not a list of numbers") from None
    best_effort = row.text("job_type") == "best" or row.text("best_effort") == "1"
    return TraceJob(
        row.text("id"),
        submit,
        row.at_least("duration", 0),
        row.gpus("gpus", -0.5),
        row.text("user"),
        row.text("user"),
        model=row.text("model"),
        iterations=row.not_negative("iterations"),
        deadline_s=None if best_effort else submit + times[0],
        values=() if best_effort else tuple(zip(times, values, strict=False)),
        mode=row.text("job_type"),
    )


def _sia(row: Row, index: int) -> TraceJob:
    return TraceJob(
        row.text("name"),
        row.moment("time"),
        0.0,
        row.gpus("num_replicas"),
        model=row.text("application"),
        batch=int(row.at_least("batch_size", 1, whole=True)),
    )


def _pods(row: Row, index: int) -> TraceJob:
    """Pods of the openb list; those of no GPU take CPU and memory only."""
    created, deleted = row.number("creation_time", "0"), row.number("deletion_time", "0")
    return TraceJob(
        row.text("name"),
        created,
        max(deleted - created, 0.0),
        row.whole("num_gpu", "0", MOST_GPUS),
        user=row.text("qos"),
        gpu_milli=row.whole("gpu_milli", "0"),
        cpu_millis=row.whole("cpu_milli", "0"),
        memory_mb=row.whole("memory_mib", "0"),
        model=row.text("gpu_spec"),
    )


def _request(row: Row, index: int) -> TraceJob:
    """Requests to a service: when each comes, and how long a replica works on it."""
    arrival, service = row.moment("arrival_s"), row.at_least("service_s", 0)
    return TraceJob(row.text("id", f"request-{index}"), arrival, service, 1, row.text("service"))


RowReader = Callable[[Row, int], TraceJob]
# Formats by columns that no other format has.
FORMATS: tuple[tuple[tuple[str, ...], str, RowReader], ...] = (
    (("iteration_time", "resource_time_0"), "muri", _muri),
    (("expect_time_list", "job_type"), "chronus", _chronus),
    (("num_iteration", "deadline"), "elasticflow", _elasticflow),
    (("iteration", "ddl"), "elasticflow", _elasticflow),
    (("application", "num_replicas"), "sia", _sia),
    (("gpu_milli", "num_gpu"), "openb", _pods),
    (("arrival_s", "service_s"), "requests", _request),
    (("timestamp", "gpu_time", "cluster"), "philly", _generic),
    (("job_id", "submit_time", "interval"), "tiresias", _generic),
    (("job_id", "submit_time", "aggr_interval"), "tiresias", _generic),
)


GAVEL = ("model", "command", "steps_arg", "needs_data_dir", "steps", "arrival", "gpus")
SHOCKWAVE = (
    *("model", "command", "directory", "steps_arg", "needs_data_dir", "steps", "gpus", "mode"),
    *("weight", "slo", "duration", "arrival"),
)


def _tabbed(path: Path, lines: list[str]) -> tuple[str, list[TraceJob]]:
    jobs: list[TraceJob] = []
    name = ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        known = {len(GAVEL): ("gavel", GAVEL), len(SHOCKWAVE): ("shockwave", SHOCKWAVE)}
        if len(cells) not in known:
            raise WorkloadError(
                f"{path}, line {number}: {len(cells)} columns; a trace of Gavel has {len(GAVEL)}, "
                f"one of Shockwave {len(SHOCKWAVE)}"
            )
        name, header = known[len(cells)]
        row = Row(path, number, dict(zip(header, cells, strict=True)), {})
        slo = row.number("slo", "-1")
        arrival = row.not_negative("arrival")
        jobs.append(
            TraceJob(
                str(len(jobs)),
                arrival,
                row.not_negative("duration", "0"),
                row.gpus(),
                model=row.text("model"),
                batch=int((re.findall(r"batch size (\d+)", row.text("model")) or ["0"])[0]),
                iterations=row.at_least("steps", 0),
                mode=row.text("mode"),
                weight=row.not_negative("weight", "1"),
                deadline_s=arrival + slo if slo > 0 else None,
            )
        )
    return name, jobs


def _sacct(path: Path, lines: list[str]) -> list[TraceJob]:
    """Read `sacct --parsable2 --allocations --format=JobID,User,Account,Partition,Submit,Elapsed,
    State,AllocTRES,...`. Jobs that did not run, or had no GPU, are no jobs of a GPU cluster."""
    header = lines[0].rstrip("|").split("|")
    for column in ("JobID", "Submit"):
        if column not in header:
            raise WorkloadError(f"{path}, line 1: no column {column}; there are {header}")
    gpu_columns = [
        name for name in ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES") if name in header
    ]
    if not gpu_columns or not {"Elapsed", "ElapsedRaw"} & set(header):
        raise WorkloadError(
            f"{path}, line 1: it needs Elapsed or ElapsedRaw, and AllocTRES; there are {header}"
        )
    jobs = []
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("|")
        if not line.strip():
            continue
        if len(cells) < len(header):
            raise WorkloadError(f"{path}, line {number}: {len(cells)} columns of {len(header)}")
        row = Row(path, number, dict(zip(header, cells, strict=False)), {})
        gpus = max((_gres(row.text(name)) for name in gpu_columns), default=0)
        if gpus > MOST_GPUS:
            raise row.error(
                gpu_columns[0], f"is out of range: a job has at most {MOST_GPUS:,} GPUs"
            )
        state = row.text("State", "COMPLETED").split(" ")[0]
        seconds = _elapsed(row)
        if "." in row.text("JobID") or state not in ENDED_IN_SLURM or not gpus or not seconds:
            continue
        jobs.append(
            TraceJob(
                row.text("JobID"),
                row.moment("Submit"),
                seconds,
                gpus,
                row.text("Account") or row.text("Partition"),
                row.text("User"),
                model=row.text("JobName"),
                group=stem(row.text("JobName")),
            )
        )
    return jobs


def _gres(text: str) -> int:
    """`billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4` and `gpu:a100:4` are 4 GPUs."""
    whole = re.search(r"(?:^|,)(?:gres/)?gpu[=:](\d+)", text)
    if whole is not None:
        return int(whole[1])
    return sum(int(n) for n in re.findall(r"(?:^|,)(?:gres/)?gpu:[^=:,]+[=:](\d+)", text))


def _elapsed(row: Row) -> float:
    if row.text("ElapsedRaw"):
        return row.not_negative("ElapsedRaw")
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,6}):(\d\d):(\d\d)(?:\.\d+)?", row.text("Elapsed"))
    if match is None:
        raise row.error("Elapsed", "is not [DAYS-]HH:MM:SS")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _with_own_ids(jobs: Iterable[TraceJob]) -> Iterable[TraceJob]:
    """Give jobs whose id came before a number behind it, so that none replaces another."""
    seen: dict[str, int] = {}
    taken: set[str] = set()
    for job in jobs:
        times = seen.get(job.id, 0) + 1
        own = job.id if times == 1 else f"{job.id}#{times}"
        while own in taken:
            times += 1
            own = f"{job.id}#{times}"
        seen[job.id] = times
        taken.add(own)
        yield job if own == job.id else replace(job, id=own)
