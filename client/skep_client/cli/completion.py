"""Names that the shell completes, from the server; where that takes too long, nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from skep_client.calls import Call

T = TypeVar("T")
LONGEST_S = 1.5
MOST = 50


def job_names(incomplete: str) -> list[str]:
    """List the newest jobs whose names begin so."""
    from skep_client import calls

    found = _asked(calls.jobs(search=incomplete, limit=MOST))
    if found is None:
        return []
    return list(dict.fromkeys(job.name for job in found.results if job.name.startswith(incomplete)))


def vc_names(incomplete: str) -> list[str]:
    """List the virtual clusters that you belong to."""
    from skep_client import calls

    found = _asked(calls.virtual_clusters(limit=MOST))
    return [vc.name for vc in found.results if vc.name.startswith(incomplete)] if found else []


def task_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tasks of the job that was named before."""
    from skep_client import calls

    job = next((str(v) for k, v in ctx.params.items() if k in ("job", "target") and v), "")
    jobs = _asked(calls.jobs(search=job, limit=MOST)) if job else None
    ids = [found.id for found in jobs.results if job in (found.name, found.id)] if jobs else []
    tasks = _asked(calls.tasks(ids[0], limit=MOST)) if ids else None
    names = [f"{task.role}-{task.index}" for task in tasks.results] if tasks else []
    return [name for name in names if name.startswith(incomplete)]


def _asked(call: Call[T]) -> T | None:
    """None where the server does not answer soon: a shell has no place for the reason."""
    from skep_client import config
    from skep_client.client import Skep

    try:
        login = config.login()
        with Skep(login.server, login.token, retry_delays_s=()) as skep:
            return skep.run(replace(call, timeout_s=LONGEST_S))
    except Exception:
        return None
