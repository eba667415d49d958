"""`skep logs`: the output of all tasks of a job, merged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client import exits
from skep_client.cli.common import JobName, client, console, find_job
from skep_client.loglines import Line, Lines, safe_for_terminal

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import JobSummary, LogChunk

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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show the merged log of a job."""
    filters = {"rank": rank, "role": role, "stream": stream, "attempt": attempt, "tail": tail}
    filters["progress"] = "raw" if raw else None
    printer = Printer(prefix=prefix, timestamps=timestamps, as_json=as_json)
    with client() as skep:
        job_id = find_job(skep, job).id
        if follow:
            _follow(skep, job_id, printer, **filters)
        else:
            _print_now(skep, job_id, printer, **filters)


def show_log(skep: Skep, job_id: str) -> int:
    """Follow a job to its end; the exit code says whether it succeeded."""
    from skep_client.cli.starting import show_start

    show_start(skep, job_id)
    _follow(skep, job_id, Printer())
    return exits.OK if skep.job(job_id).state == "SUCCEEDED" else exits.FAILED


class Printer:
    """Lines to the standard output; what is said about the job goes to standard error."""

    def __init__(
        self, *, prefix: bool = True, timestamps: bool = False, as_json: bool = False
    ) -> None:
        self._console = console()
        self._lines = Lines()
        self._prefix, self._timestamps, self._as_json = prefix, timestamps, as_json
        self._width = 0

    def chunk(self, chunk: LogChunk) -> None:
        for line in self._lines.feed(chunk):
            self._line(line)

    def end(self) -> None:
        for line in self._lines.rest():
            self._line(line)

    def job(self, job: JobSummary) -> None:
        reason = job.wait_reason or job.exit_reason
        why = f": {reason.message}" if reason else ""
        print(f"{job.name} is {job.state}{why}", file=sys.stderr, flush=True)

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
            print(prefix + line.text, flush=True)
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
        print(json.dumps(fields), flush=True)


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
