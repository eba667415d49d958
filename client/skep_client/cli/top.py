"""`skep top`: how busy the GPUs of running jobs are, live."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.common import ago, client, console, find_job, table
from skep_client.cli.completion import job_names

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import Gpu, JobSummary

EVERY_S = 3.0
REST, MOST_S = 5.0, 60.0  # times as long as a look took, before the next one; seconds
BAR = 10  # characters
RECENT_S = 60
Row = tuple[Any, ...]


def add_to(app: typer.Typer) -> None:
    app.command()(top)


def top(
    job: Annotated[
        str,
        typer.Argument(
            metavar="[JOB]",
            help="Show the GPUs and tasks of this job; default: all jobs.",
            autocompletion=job_names,
        ),
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print once, as JSON, and exit.")] = False,
) -> None:
    """Running jobs, how busy their GPUs are, and how full; Ctrl-C ends it."""
    with client() as skep:
        look: Callable[[], list[dict[str, Any]]]
        if job:
            job_id = find_job(skep, job).id
            look = lambda: of_job(skep, job_id)  # noqa: E731
        else:
            look = lambda: of_all(skep)  # noqa: E731
        if as_json:
            import json

            print(json.dumps(look()))
        # A dumb terminal cannot be drawn anew.
        elif once or not console().is_terminal or console().is_dumb_terminal:
            console().print(_drawn(look()))
        else:
            _live(look)


def of_all(skep: Skep) -> list[dict[str, Any]]:
    """One row per running job that one may see; percent of time that its GPUs were busy."""
    gpus: dict[str, list[Gpu]] = defaultdict(list)
    for node in skep.nodes():
        for gpu in node.gpus:
            if gpu.used_by and gpu.used_by.job_id:
                gpus[gpu.used_by.job_id].append(gpu)
    return [_job_row(job, gpus.get(job.id, [])) for job in skep.jobs(state=["RUNNING"], limit=200)]


def of_job(skep: Skep, job_id: str) -> list[dict[str, Any]]:
    """Return one row per GPU, and one per task for its CPUs and memory."""
    import time

    found = skep.metrics(job_id, since=int(time.time()) - RECENT_S)
    rows: list[dict[str, Any]] = [
        {
            "task": f"{gpu.role}-{gpu.index}",
            "node": gpu.node,
            "device": gpu.model,
            "gpu_percent": gpu.points[-1][1] if gpu.points else None,
            "memory_mb": gpu.points[-1][2] if gpu.points else None,
        }
        for gpu in found.gpus
    ]
    rows += [
        {
            "task": f"{task.role}-{task.index}",
            "node": "",
            "device": "CPUs",
            "cpu_percent": task.points[-1][1],
            "memory_mb": task.points[-1][2],
        }
        for task in found.tasks
        if task.points
    ]
    return sorted(rows, key=lambda row: row["task"])


def _job_row(job: JobSummary, gpus: list[Gpu]) -> dict[str, Any]:
    used = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    memory = [gpu.memory_used_mb for gpu in gpus if gpu.memory_used_mb is not None]
    return {
        "job": job.name,
        "owner": job.owner,
        "virtual_cluster": job.virtual_cluster,
        "gpus": job.gpus,
        "tasks": job.tasks,
        "running": ago(job.started_at),
        "gpu_percent": fmean(used) if used else None,
        "memory_mb": sum(memory) if memory else None,
        "memory_total_mb": sum(gpu.memory_mb for gpu in gpus),
    }


def _live(look: Callable[[], list[dict[str, Any]]]) -> None:
    import time

    from rich.live import Live

    with Live(_drawn([]), console=console(), screen=True, auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            live.update(_drawn(look()), refresh=True)
            # The nodes of a large cluster are many pages: they should not be read all the time.
            time.sleep(max(EVERY_S, min(REST * (time.monotonic() - began), MOST_S)))


def _drawn(rows: list[dict[str, Any]]) -> Any:
    if rows and "device" in rows[0]:
        return table(
            ("TASK", "NODE", "DEVICE", "BUSY", "MEMORY"),
            [(r["task"], r["node"], r["device"], _busy(r), _gib(r["memory_mb"])) for r in rows],
        )
    return table(
        ("JOB", "OWNER", "VC", "GPUS", "TASKS", "RUNNING", "BUSY", "GPU MEMORY"),
        [_drawn_job(row) for row in rows],
    )


def _drawn_job(row: dict[str, Any]) -> Row:
    memory = _gib(row["memory_mb"])
    of = f"{memory} of {_gib(row['memory_total_mb'])}" if memory else ""
    names = (row["job"], row["owner"], row["virtual_cluster"])
    return (*names, row["gpus"], row["tasks"], row["running"], _busy(row), of)


def _busy(row: dict[str, Any]) -> str:
    if row.get("cpu_percent") is not None:
        return f"{row['cpu_percent']:.0f} % of a CPU"
    percent = row.get("gpu_percent")
    if percent is None:
        return ""
    filled = round(percent / 100 * BAR)
    return f"{'█' * filled}{'·' * (BAR - filled)} {percent:3.0f} %"


def _gib(memory_mb: float | None) -> str:
    return "" if memory_mb is None else f"{memory_mb / 1024:.1f} GiB"
