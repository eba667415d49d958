"""What every command shares: the client of the present login, `--json`, finding a job, tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.completion import job_names, task_names, vc_names
from skep_client.loglines import one_line, plain

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.table import Table

    from skep_client.client import Skep
    from skep_client.models import Attempt, JobSummary, Task

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobName = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Id or name of a job.", autocompletion=job_names),
]
TaskName = Annotated[
    str,
    typer.Option(
        "--task",
        "-t",
        help="Task, such as worker-1, or its rank; default: rank 0.",
        autocompletion=task_names,
    ),
]
VcName = Annotated[str, typer.Option("--vc", help="Virtual cluster.", autocompletion=vc_names)]
STATE_STYLES = {
    "WAITING": "yellow",
    "RUNNING": "cyan",
    "STOPPING": "magenta",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "STOPPED": "dim",
}


def client() -> AbstractContextManager[Skep]:
    from skep_client import config
    from skep_client.client import Skep

    login = config.login()
    return Skep(login.server, login.token)


def find_job(skep: Skep, name: str) -> JobSummary:
    """Return the job with this id, or name: one's own job first, names being unique per owner.
    Raises SkepError."""
    return skep.find(name)


def find_attempt(skep: Skep, job: JobSummary, name: str = "") -> tuple[Task, Attempt]:
    """Return the present attempt of a task. Raises SkepError where there is none."""
    from skep_client.errors import SkepError

    role, _, index = name.rpartition("-")
    filters = {"role": role} if role and index.isdigit() else {}
    wanted = name or "0"
    for task in skep.tasks(job.id, **filters):
        if wanted in (f"{task.role}-{task.index}", str(task.rank)):
            if task.attempt is None:
                raise SkepError(409, "not_running", f"{job.name} is {job.state}.")
            return task, task.attempt
    raise SkepError(404, "not_found", f"{job.name} has no task {name}.")


def read_file(path: str) -> str:
    """The text of a job file; "-" is the standard input."""
    try:
        return sys.stdin.read() if path == "-" else open(path, encoding="utf-8").read()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {path}: {error}") from None


def problem_line(file: str, problem: Mapping[str, Any]) -> str:
    """What is wrong with a job file: where, as compilers write it, what, and its code."""
    place = "".join(f":{n}" for n in (problem["line"], problem["column"]) if n is not None)
    path = f"{problem['path']}: " if problem["path"] else ""
    return f"{file}{place}: {path}{problem['message']} ({problem['code']})"


def print_json(value: BaseModel | Mapping[str, Any] | Iterable[BaseModel]) -> None:
    """Print one object, or a list of them, as the server sent it."""
    import json

    from pydantic import BaseModel

    def plain(model: BaseModel) -> Any:
        return model.model_dump(mode="json")

    content: Any = value
    if isinstance(value, BaseModel):
        content = plain(value)
    elif not isinstance(value, Mapping):
        content = [plain(one) for one in value]
    # At once: whoever reads it through a pipe may follow a job with it.
    print(json.dumps(content), flush=True)


def say_deleted(name: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"deleted": name})
    else:
        say(f"Deleted {name}")


def given_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields of a change that were given. Raises typer.BadParameter for none."""
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise typer.BadParameter("Say what to change: see --help.")
    return given


def say(text: object = "", *, end: str = "\n", err: bool = False) -> None:
    """Print text that may come from the server or from other users, to stdout or stderr. Control
    characters and escape sequences are taken out: names, messages and labels of others must not
    move the cursor, set a title or write to the clipboard."""
    print(plain(str(text)), end=end, file=sys.stderr if err else sys.stdout, flush=True)


PIPED_WIDTH = 1000  # columns: one row stays one line for whoever reads it, such as grep


def console() -> Console:
    from rich.console import Console

    class OutputConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # Rich would exit with 1

    made = OutputConsole(soft_wrap=True, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PIPED_WIDTH
    return made


def print_table(
    columns: Iterable[str], rows: Iterable[Iterable[Any]], *, cut_last: bool = False
) -> None:
    console().print(table(columns, rows, cut_last=cut_last))


def table(
    columns: Iterable[str], rows: Iterable[Iterable[Any]], *, cut_last: bool = False
) -> Table:
    """Return a table with plain columns. Cells that are strings are shown as they are, never as
    markup, and whole: names are there to be typed. With `cut_last` a row is one line: the sentence
    in the last column is cut where the terminal ends."""
    from rich.table import Column, Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    *first, last = columns
    for name in first:
        drawn.columns.append(Column(name, overflow="fold", no_wrap=cut_last))
    cut: Any = {"overflow": "ellipsis", "no_wrap": True} if cut_last else {"overflow": "fold"}
    drawn.columns.append(Column(last, **cut))
    for row in rows:
        drawn.add_row(*(c if isinstance(c, Text) else Text(one_line(str(c))) for c in row))
    return drawn


def state_text(state: str) -> Any:
    from rich.text import Text

    return Text(state, STATE_STYLES.get(state, ""))


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """Return the time since then, as in "5 s", "12 min", "3 h" or "9 d"; "" for never."""
    if moment is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def local_time(moment: datetime | None, *, seconds: bool = True) -> str:
    """Return the time here with its zone, as in "2026-11-29 14:20:05 CET"; "" for none."""
    if moment is None:
        return ""
    return f"{moment.astimezone():%Y-%m-%d %H:%M{':%S' if seconds else ''} %Z}"


def until(moment: datetime, now: datetime | None = None) -> str:
    """ "14:20 (in 25 min)", with the date where that is another day; "now" for the past."""
    now = now or datetime.now(UTC)
    if moment <= now:
        return "now"
    local, today = moment.astimezone(), now.astimezone().date()
    at = f"{local:%H:%M}" if local.date() == today else f"{local:%Y-%m-%d %H:%M}"
    return f"{at} (in {ago(now, moment)})"


MOST_VCS = 1000


def default_image(skep: Skep, vc: str) -> str:
    """Return the default image of the virtual cluster, or of the only one; "": it has none."""
    found = list(islice(skep.virtual_clusters(), MOST_VCS))
    named = [one for one in found if one.name == vc] if vc else found
    return named[0].default_image if len(named) == 1 else ""
