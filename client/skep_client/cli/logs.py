"""`skep logs`: the output of all tasks of a job, merged."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from skep_client import exits
from skep_client.cli.common import JobName, client, console, find_job, say
from skep_client.loglines import Line, Lines, safe_for_terminal

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import JobSummary, LogChunk, Match

SERVER_PREFIX = re.compile(rb"^\[([^\]\n]*)\] ", re.MULTILINE)
COLORS = ("cyan", "yellow", "green", "magenta", "blue", "bright_red", "bright_cyan", "bright_green")


def add_to(app: typer.Typer) -> None:
    app.command()(logs)


def logs(
    job: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until the job ends.")] = False,
    rank: Annotated[int | None, typer.Option(help="Of this task only.")] = None,
    role: Annotated[str, typer.Option(help="Of this task role only.")] = "",
    attempt: Annotated[int | None, typer.Option(help="Of this attempt of the job only.")] = None,
    stream: Annotated[str, typer.Option(help="stdout or stderr only.")] = "",
    tail: Annotated[int | None, typer.Option(help="Begin with the last lines only.")] = None,
    prefix: Annotated[bool, typer.Option(help="Name the task before each line.")] = True,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Tell when its node read each line.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Every state of progress bars, not the last.")
    ] = False,
    search: Annotated[
        str, typer.Option("--search", "-s", help="Only lines with this text in them.")
    ] = "",
    regex: Annotated[bool, typer.Option("--regex", help="--search is an RE2 pattern.")] = False,
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="In --search.")] = False,
    download: Annotated[
        Path | None,
        typer.Option("--download", "-o", metavar="FILE", help="Write it whole to a file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
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
        elif not (tail or timestamps or as_json or printer.is_terminal):
            # As one transfer: page by page a large log takes thirty times as long (finding J10).
            _copy(skep, found.id, sys.stdout.buffer, prefix=prefix, **filters)
        else:
            _print_now(skep, found.id, printer, **filters)


def show_log(skep: Skep, job_id: str) -> int:
    """Follow a job to its end; the exit code says whether it succeeded."""
    from skep_client.cli.starting import show_start

    show_start(skep, job_id)
    _follow(skep, job_id, Printer())
    return exits.OK if skep.job(job_id).state == "SUCCEEDED" else exits.FAILED


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
            self._line(line)
        sys.stdout.flush()

    def match(self, match: Match) -> None:
        """One line that a search found."""
        self._line(Line(match.role, match.index, match.rank, match.stream, match.at, match.text))

    def end(self) -> None:
        for line in self._lines.rest():
            self._line(line)

    def job(self, job: JobSummary) -> None:
        reason = job.wait_reason or job.exit_reason
        why = f": {reason.message}" if reason else ""
        say(f"{job.name} is {job.state}{why}", err=True)

    def _line(self, line: Line) -> None:
        if self._as_json:
            self._print_json(line)
            return
        self._width = max(self._width, len(line.task))
        prefix = f"{line.task:<{self._width}} | " if self._prefix else ""
        if self._timestamps:
            prefix += f"{line.at:%Y-%m-%dT%H:%M:%S.%fZ} "
        self._write(line, prefix)

    def _write(self, line: Line, prefix: str) -> None:
        """Raw bytes of text to a file or pipe; to a terminal coloured and made harmless."""
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

    for news in follow(skep, job_id, **filters):
        if isinstance(news, JobSummary):
            printer.job(news)
        else:
            printer.chunk(news)
    printer.end()


def _print_now(skep: Skep, job_id: str, printer: Printer, **filters: Any) -> None:
    page = skep.logs(job_id, cursor=0, **filters)
    filters.pop("tail")
    while page.chunks:
        for chunk in page.chunks:
            printer.chunk(chunk)
        page = skep.logs(job_id, cursor=page.next, **filters)
    printer.end()
