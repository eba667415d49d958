"""What `skep policy VC NAME --forecast` and `--check` show: the present queue under another policy,
and what a policy must know of its jobs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from skep_client import exits
from skep_client.cli.common import client, print_json, print_table, say, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skep_client.client import Skep
    from skep_client.models import (
        AssumedFact,
        ChangedJob,
        LackingFact,
        PolicyCheck,
        PolicyForecast,
        Simulation,
    )

T = TypeVar("T")
LOOK_S = 1.0
FACTS = {
    "duration": "how long a job runs",
    "deadline": "the deadline of a job",
    "history": "earlier jobs that were like a job",
    "speeds": "how fast a job is on each GPU model",
    "speedup": "how fast an elastic job is at each size",
    "restart": "what a restart of a job costs",
}


def show_check(vc: str, name: str, parameters: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what a policy, by default that of the virtual cluster, asks of jobs."""
    with client() as skep:
        if not name:
            chosen = skep.virtual_cluster(vc).policy
            name, parameters = (chosen.name, chosen.parameters) if chosen else (name, parameters)
        found = skep.check_policy(vc, name, parameters)
    if as_json:
        print_json(found)
        return
    for one in found.lacking:
        say(f"{name} must know {_unknown(one, found)}.")
    if any(one.jobs or one.ended_jobs for one in found.lacking):
        say(found.otherwise)
    for assumed in found.assumed:
        say(f"{name} decides by {_unknown(assumed, found)}.")
        if assumed.jobs or assumed.ended_jobs:
            say(f"  Of such a job: {assumed.otherwise}")
    if found.preempts:
        say(
            f"Running jobs yield to others of the same priority; {found.not_preemptible} of "
            f"{found.jobs} jobs never do."
        )
    if found.resizes:
        say(f"It chooses the size of elastic jobs: {found.elastic} of {found.jobs} jobs.")
    if not (found.lacking or found.preempts or found.resizes):
        say(f"{name} asks nothing of jobs.")


def _unknown(one: LackingFact | AssumedFact, found: PolicyCheck) -> str:
    """Return a fact, and how many jobs lack it now and of those that ended lately."""
    examples = ", ".join(job.name for job in one.examples)
    such = f", such as {examples}" if examples else ""
    text = f"{FACTS.get(one.fact, one.fact)}: unknown of {one.jobs} of {found.jobs} jobs{such}"
    if found.ended is None or not found.ended.jobs:
        return text
    share = "" if one.ended_share is None else f", with {one.ended_share:.0%} of the GPU time"
    return (
        f"{text}; of {one.ended_jobs} of {found.ended.jobs} that ended, of the last "
        f"{found.ended.days} days{share}"
    )


def show_forecast(vc: str, name: str, parameters: Mapping[str, Any], *, as_json: bool) -> None:
    """Ask for the forecast, wait for it, and print it."""
    with client() as skep:
        found = until_over(skep, skep.forecast_policy(vc, name, parameters))
    show_answer(found, found.forecast, _print, as_json=as_json)


def until_over(skep: Skep, simulation: Simulation) -> Simulation:
    """Wait for the end of a simulation. Returns it as it is then."""
    from skep_client import calls

    while simulation.state in ("QUEUED", "RUNNING"):
        time.sleep(LOOK_S)
        simulation = skep.run(calls.following(calls.simulation(simulation.id)))
    return simulation


def show_answer(
    found: Simulation, answer: T | None, show: Callable[[T], None], *, as_json: bool
) -> None:
    """Print the answer of a simulation that is over. Without one print why, and exit with 1."""
    if as_json:
        print_json(found)
    elif answer is not None:
        show(answer)
    else:
        say(f"{found.state}{f': {found.error.message}' if found.error else ''}", err=True)
    if answer is None:
        raise typer.Exit(exits.FAILED)


def _print(found: PolicyForecast) -> None:
    print_table(
        ("POLICY", "MEAN WAIT", "P95 WAIT", "LAST JOB ENDS"),
        [
            (
                side.policy,
                f"{side.avg_wait_s:,.0f} s",
                f"{side.p95_wait_s:,.0f} s",
                until(datetime.fromtimestamp(side.last_end_at, UTC)),
            )
            for side in found.sides
        ],
    )
    _print_changed("EARLIER", found.gaining, found.gains)
    _print_changed("LATER", found.losing, found.losses)
    jobs = f"{found.running} running and {found.waiting} waiting jobs"
    if found.recent:
        jobs += f"; {found.recent} of the last week come once more"
    say(f"Of {jobs}.")
    if found.unknown_durations:
        say(f"Without an estimate: {found.unknown_durations}, taken for the median job.")
    if found.hidden:
        say(f"Not listed, as you may not see them: {found.hidden}.")


def _print_changed(title: str, count: int, changed: list[ChangedJob]) -> None:
    if changed:
        say()
        rows = [(job.name, job.owner, f"{abs(job.by_s):,.0f} s") for job in changed]
        print_table((f"{title} ({count})", "OWNER", "BY"), rows)
