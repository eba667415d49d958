"""`skep logs`: the output of all tasks of a job, merged."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from skep_client import exits
from skep_client.cli.common import JobName, client, console, find_job, say
from skep_client.cli.words import reason
from skep_client.loglines import Line, Lines, safe_for_terminal

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import JobSummary, LogChunk, Match, Task

SERVER_PREFIX = re.compile(rb"^\[([^\]\n]*)\] ", re.MULTILINE)
COLORS = ("cyan", "yellow", "green", "magenta", "blue", "bright_red", "bright_cyan", "bright_green")
LOOK_S = 1.0
MOST_TASKS = 500


def add_to(app: typer.Typer) -> None:
    app.command()(logs)


def logs(
    job: JobName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the output until the job ends.")
    ] = False,
    rank: Annotated[int | None, typer.Option(help="Only the task with this rank.")] = None,
    role: Annotated[str, typer.Option(help="Only tasks of this role.")] = "",
    attempt: Annotated[int | None, typer.Option(help="Only this attempt of the job.")] = None,
    stream: Annotated[str, typer.Option(help="Only this stream: stdout or stderr.")] = "",
    tail: Annotated[
        int | None, typer.Option(min=1, help="Start with this many last lines.")
    ] = None,
    prefix: Annotated[bool, typer.Option(help="Print the task's name before each line.")] = True,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Print the time of each line.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print every state of a progress bar, not only the last.")
    ] = False,
    search: Annotated[
        str, typer.Option("--search", "-s", help="Only lines that contain this text.")
    ] = "",
    regex: Annotated[
        bool, typer.Option("--regex", help="Treat --search as an RE2 pattern.")
    ] = False,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Ignore case in --search.")
    ] = False,
    download: Annotated[
        Path | None,
        typer.Option("--download", "-o", metavar="FILE", help="Write the whole log to a file."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
) -> None:
    """Show the merged log of a job."""
    filters = {"rank": rank, "role": role, "stream": stream, "attempt": attempt, "tail": tail}
    filters["progress"] = "raw" if raw else None
    printer = Printer(prefix=prefix, timestamps=timestamps, as_json=as_json, raw=raw)
    if download is not None and (follow or search or tail or timestamps or as_json):
        raise typer.BadParameter("--download writes the whole log: without other forms of it")
    with client() as skep:
        found = find_job(skep, job)
        _check_filters(skep, found, rank=rank, role=role, stream=stream)
        if search:
            options = {"q": search, "regex": regex, "ignore_case": ignore_case}
            _print_matches(skep, found.id, printer, **options, **filters)
        elif follow:
            _follow(skep, found.id, printer, **filters)
        elif download is not None:
            with _partial(download) as file:
                _copy(skep, found.id, file, prefix=prefix, **filters)
        elif tail:
            _print_tail(skep, found.id, printer, **filters)
        elif printer.is_terminal:
            _print_whole(skep, found.id, printer, **filters)
        else:
            # As one transfer: page by page a large log takes thirty times as long (finding J10).
            out = sys.stdout.buffer
            filters |= {"timestamps": timestamps or None, "as": "jsonl" if as_json else None}
            _copy(skep, found.id, out, prefix=prefix and not as_json, **filters)


def show_log(skep: Skep, job_id: str, *, as_json: bool) -> int:
    """Follow a job to its end; the exit code says whether it succeeded."""
    from skep_client import calls

    show_start(skep, job_id)
    _follow(skep, job_id, Printer(as_json=as_json))
    job = skep.run(calls.following(calls.job(job_id)))
    return exits.OK if job.state == "SUCCEEDED" else exits.FAILED


class Printer:
    """Lines to the standard output; what is said about the job goes to standard error."""

    def __init__(
        self,
        *,
        prefix: bool = True,
        timestamps: bool = False,
        as_json: bool = False,
        raw: bool = False,
    ) -> None:
        self._console = console()
        self._lines = Lines(raw=raw)
        self._prefix, self._timestamps, self._as_json = prefix, timestamps, as_json
        self._width = 0

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    def chunk(self, chunk: LogChunk) -> None:
        for line in self._lines.feed(chunk):
            self.line(line)
        sys.stdout.flush()

    def match(self, match: Match) -> None:
        """Print one line that a search found."""
        self.line(Line(match.role, match.index, match.rank, match.stream, match.at, match.text))

    def end(self) -> None:
        for line in self._lines.rest():
            self.line(line)

    def job(self, job: JobSummary) -> None:
        reason = job.wait_reason or job.exit_reason
        why = f": {reason.message}" if reason else ""
        say(f"{job.name} is {job.state}{why}", err=True)

    def line(self, line: Line) -> None:
        if self._as_json:
            self._print_json(line)
            return
        self._width = max(self._width, len(line.task))
        prefix = f"{line.task:<{self._width}} | " if self._prefix else ""
        if self._timestamps:
            prefix += f"{line.at:%Y-%m-%dT%H:%M:%S.%fZ} "
        self._write(line, prefix)

    def _write(self, line: Line, prefix: str) -> None:
        """Write the text as it is to a file or pipe; to a terminal coloured and without control
        characters."""
        from rich.text import Text

        if not self._console.is_terminal:
            sys.stdout.write(f"{prefix}{line.text}\n")
            return
        text = Text(prefix, COLORS[line.rank % len(COLORS)])
        text.append_text(Text.from_ansi(safe_for_terminal(line.text)))
        self._console.print(text)

    def _print_json(self, line: Line) -> None:
        import json

        fields: dict[str, Any] = {
            "at": line.at.isoformat(),
            "role": line.role,
            "index": line.index,
            "rank": line.rank,
            "stream": line.stream,
            "text": line.text,
        }
        sys.stdout.write(f"{json.dumps(fields)}\n")


def _check_filters(
    skep: Skep, job: JobSummary, *, rank: int | None, role: str, stream: str
) -> None:
    """Raises SkepError for a task or stream that the job does not have: an empty answer would say
    that it printed nothing."""
    from skep_client.errors import SkepError

    if rank is not None and not 0 <= rank < job.tasks:
        message = f"{job.name} has {job.tasks} tasks, ranks 0 to {job.tasks - 1}: none is {rank}."
        raise SkepError(404, "no_such_task", message)
    if stream and stream not in ("stdout", "stderr"):
        raise typer.BadParameter("--stream is stdout or stderr")
    if role and role not in (roles := [r.name for r in skep.job(job.id).task_roles]):
        message = f"{job.name} has no role {role}; it has {', '.join(roles)}."
        raise SkepError(404, "no_such_role", message)


def _copy(skep: Skep, job_id: str, to: BinaryIO, *, prefix: bool, **filters: Any) -> None:
    """The server puts `[worker-0] ` before each line; here it is `worker-0 | `, as followed."""
    filters |= {"prefix": "true" if prefix else "false", "tail": None}
    filters["progress"] = filters.get("progress") or "final"
    rest = b""
    for piece in skep.download_logs(job_id, **filters):
        if not prefix:
            to.write(piece)
            continue
        whole, end, rest = (rest + piece).rpartition(b"\n")
        to.write(SERVER_PREFIX.sub(rb"\1 | ", whole + end))
    to.write(SERVER_PREFIX.sub(rb"\1 | ", rest))
    to.flush()


@contextmanager
def _partial(path: Path) -> Iterator[BinaryIO]:
    """The file under its name only when it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def _print_matches(skep: Skep, job_id: str, printer: Printer, **params: Any) -> None:
    params.pop("tail", None)
    params.pop("progress", None)
    found = False
    for match in skep.search_logs(job_id, **params):
        found = True
        printer.match(match)
    sys.stdout.flush()
    if not found:
        raise typer.Exit(exits.FAILED)  # as grep does


def _follow(skep: Skep, job_id: str, printer: Printer, **filters: Any) -> None:
    from skep_client.follow import follow
    from skep_client.models import JobSummary

    try:
        for news in follow(skep, job_id, **filters):
            if isinstance(news, JobSummary):
                printer.job(news)
            else:
                printer.chunk(news)
    finally:  # also of what is left by Ctrl-C, or when the server stays away
        printer.end()


def _print_tail(skep: Skep, job_id: str, printer: Printer, **filters: Any) -> None:
    page = skep.logs(job_id, cursor=0, times=True, **filters)
    filters.pop("tail")
    while page.chunks:
        for chunk in page.chunks:
            printer.chunk(chunk)
        page = skep.logs(job_id, cursor=page.next, times=True, **filters)
    printer.end()


def _print_whole(skep: Skep, job_id: str, printer: Printer, **filters: Any) -> None:
    import json
    from datetime import datetime

    filters |= {"as": "jsonl", "tail": None, "progress": filters.get("progress") or "final"}
    rest = b""
    for piece in skep.download_logs(job_id, **filters):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            fields = json.loads(line)
            printer.line(Line(**fields | {"at": datetime.fromisoformat(fields["at"])}))
    sys.stdout.flush()


def show_start(skep: Skep, job_id: str) -> None:
    """Show a progress bar until the first task runs, where standard error is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    from skep_client import calls
    from skep_client.live import Subscription

    console = Console(stderr=True)
    if not console.is_terminal:
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20))
    with (
        Progress(*columns, console=console, transient=True) as progress,
        Subscription(skep.server, skep.token, "job", job_id) as changes,
    ):
        shown = progress.add_task("", total=100)
        asked = calls.following(calls.job(job_id))
        tasks_asked = calls.following(calls.tasks(job_id, limit=MOST_TASKS))
        while not (job := skep.run(asked)).started_at and not job.is_finished:
            tasks = skep.run(tasks_asked).results if job.placed_at else []
            words, percent = said(job, tasks)
            progress.update(shown, description=words, completed=percent)
            changes.wait(LOOK_S)


def said(job: JobSummary, tasks: Sequence[Task]) -> tuple[str, float]:
    """Return a sentence on the start of the job, and percent of the way."""
    attempts = [task.attempt for task in tasks if task.attempt is not None]
    if job.placed_at is None or not attempts:
        return f"{job.name} waits. {reason(job)}".strip(), 0.0
    pulling = [attempt.pull_percent or 0 for attempt in attempts if attempt.phase == "pulling"]
    ready = sum(attempt.phase in ("ready", "running", "exited") for attempt in attempts)
    if pulling:
        whole = [100] * (len(attempts) - len(pulling))
        return f"{len(pulling)} of {len(attempts)} tasks pull their image", fmean(pulling + whole)
    return f"{ready} of {len(attempts)} tasks are ready", 100.0 * ready / len(attempts)
