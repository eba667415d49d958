"""What every command shares: the client of the present login, `--json`, finding a job, tables."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.completion import job_names

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
    str, typer.Option("--task", "-t", help="Such as worker-1, or its rank; else rank 0.")
]
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
    """By id, or by name: one's own job first, names being unique per owner. Raises SkepError."""
    from skep_client.errors import SkepError

    if _is_id(name):
        return skep.job(name)
    owner, _, name = name.rpartition("/")
    found = [j for j in skep.jobs(search=name) if j.name == name and owner in ("", j.owner)]
    if len(found) > 1:
        me = skep.me().username
        found = [j for j in found if j.owner == me] or found
    if not found:
        raise SkepError(404, "not_found", f"There is no job named {name}.")
    if len(found) > 1:
        owners = ", ".join(f"{j.owner}/{j.name}" for j in found)
        raise SkepError(400, "ambiguous", f"Several people have a job {name}; name one: {owners}")
    return found[0]


def find_attempt(skep: Skep, job: JobSummary, name: str = "") -> tuple[Task, Attempt]:
    """The present attempt of a task. Raises SkepError where there is none."""
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


def print_json(value: BaseModel | Iterable[BaseModel]) -> None:
    """One object, or a list of them, as the server told it."""
    import json

    from pydantic import BaseModel

    def plain(model: BaseModel) -> Any:
        return model.model_dump(mode="json")

    print(json.dumps(plain(value) if isinstance(value, BaseModel) else [plain(v) for v in value]))


PIPED_WIDTH = 1000  # columns: one row stays one line for whoever reads it, such as grep


def console() -> Console:
    from rich.console import Console

    made = Console(soft_wrap=True, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PIPED_WIDTH
    return made


def print_table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    console().print(table(columns, rows))


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    """Plain columns. Cells that are strings are shown as they are, never as markup, and whole:
    names are there to be typed."""
    from rich.table import Column, Table
    from rich.text import Text

    whole = (Column(name, overflow="fold") for name in columns)
    drawn = Table(*whole, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        drawn.add_row(*(c if isinstance(c, Text) else Text(str(c)) for c in row))
    return drawn


def state_text(state: str) -> Any:
    from rich.text import Text

    return Text(state, STATE_STYLES.get(state, ""))


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """ "5 s", "12 min", "3 h", "9 d" since then; "" for never."""
    if moment is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def until(moment: datetime, now: datetime | None = None) -> str:
    """ "14:20 (in 25 min)", with the date where that is another day; "now" for the past."""
    now = now or datetime.now(UTC)
    if moment <= now:
        return "now"
    local, today = moment.astimezone(), now.astimezone().date()
    at = f"{local:%H:%M}" if local.date() == today else f"{local:%Y-%m-%d %H:%M}"
    return f"{at} (in {ago(now, moment)})"


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
