"""What if, from the present moment on: what runs and what waits now, run on as the cluster is and
with other policies, nodes or quotas.

It is taken and run as the forecast of a policy is (`forecasting`), but of the whole cluster, too,
and without jobs that come again: it says when each job of now would start and end. The first run is
always the cluster as it is; all others are compared to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import fsum
from pathlib import Path
from typing import Any

from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.core.errors import SkepError
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import Job
from skep_platform.scheduling import ended_services, shared_state
from skep_platform.simulations import forecasting, services
from skep_platform.simulations.models import Simulation
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.tenancy.services import chosen_policy
from skep_scheduler import policies
from skep_scheduler.simulator import what_if
from skep_scheduler.simulator.command import read_policy
from skep_scheduler.simulator.results import percentile
from skep_scheduler.simulator.snapshot import Snapshot, encode
from skep_scheduler.simulator.workload import WorkloadError

SOURCE = "now"
PRESENT = "present"  # the policies that virtual clusters have, where there are several of them
HERE, CHANGED = "as_is", "changed"
SHOWN = 10  # jobs that gain most, and that lose most, of each run


def ask(user: User, vc: VirtualCluster | None, request: dict[str, Any]) -> Simulation:
    """Create a simulation of the present queue. `request` is what `api.SimulationBody` checked.

    Raises Conflict `simulation_active`, and SkepError for a policy or a change that cannot be had:
    see `what_if.check`, and `duplicate_policy`.
    """
    services.check_policies(request["policies"], request["placement"])
    names = {request["policy_of"], *(change["virtual_cluster"] for change in request["changes"])}
    services.check_names(user, names - {""})
    try:
        with shared_state.view() as state:
            what_if.check(state, _changes(request))
    except WorkloadError as error:
        raise SkepError(error.message, code=error.code, **error.details) from None
    of = vc or VirtualCluster.objects.filter(name=request["policy_of"]).first()
    present = forecasting.label(chosen_policy(of)) if of else PRESENT
    # The present policy is in the first run in any case.
    others = [policy for policy in request["policies"] if policy != present]
    return services.store(user, vc, request | {"policies": [present, *others]})


def write(simulation: Simulation, path: Path) -> tuple[int, int, dict[str, Any]]:
    """Write the snapshot of this moment for the process that simulates it. Returns the number of
    jobs in it, the number of runs, and what is shown of them. Raises SkepError `no_jobs`,
    `too_many_jobs`."""
    vc, request = simulation.vc, simulation.request
    now = timezone.now().timestamp()
    with shared_state.view() as state:
        found = forecasting.present(state, vc.name if vc else "")
    number = len(found.running) + len(found.waiting)
    if not number:
        message = "No guaranteed job waits or runs: there is nothing to simulate from now on."
        raise SkepError(message, code="no_jobs")
    if number > forecasting.MOST_JOBS:
        message = (
            f"{number:,} jobs wait and run: a simulation from now on takes at most "
            f"{forecasting.MOST_JOBS:,}. Simulate one virtual cluster."
        )
        raise SkepError(message, code="too_many_jobs", jobs=number, most=forecasting.MOST_JOBS)
    inventory, changed = found.inventory, vc.name if vc else request["policy_of"]
    if any(policies.learns_services(read_policy(other)) for other in request["policies"][1:]):
        hour = ended_services.hour_now()
        inventory = ended_services.with_services(inventory, [changed], hour)
    snapshot = Snapshot(
        now,
        vc.name if vc else "",
        inventory,
        tuple(found.running),
        tuple(found.waiting),
        found.left_s(now, _usual(simulation.owner, found)),
        request["restart_s"],
    )
    runs = runs_of(request, vc)
    path.write_text(json.dumps({"snapshot": encode(snapshot), "runs": runs}))
    about = found.about(now) | {"scenarios": [run["scenario"] for run in runs]}
    return number, len(runs), about


def runs_of(request: Mapping[str, Any], vc: VirtualCluster | None) -> list[dict[str, Any]]:
    """Return each policy on the cluster as it is, and with the changes, if there are any. The first
    policy of the request is the one that there is."""
    scenarios: list[tuple[str, list[Any]]] = [(HERE, [])]
    if request["changes"]:
        changes = [[one.vc, one.model, one.gpus] for one in _changes(request)]
        scenarios.append((CHANGED, changes))
    return [
        {
            "scenario": scenario,
            "label": policy,
            "choice": asdict(read_policy(policy)) if position else None,
            "policy_of": vc.name if vc else request["policy_of"],
            "changes": changes,
        }
        for scenario, changes in scenarios
        for position, policy in enumerate(request["policies"])
    ]


def summary(runs: Sequence[dict[str, Any]], about: dict[str, Any]) -> dict[str, Any]:
    """Return the answer as it is stored: `runs` as of all simulations, and `now`: when jobs start
    and end in each run, and the ids of those that gain and lose most by it."""
    states, scenarios = about.pop("states"), about.pop("scenarios")
    times = [{job: (start, end) for job, _, end, start in run.pop("jobs")} for run in runs]
    sides = [
        {"scenario": scenario, "policy": run["figures"]["policy"]}
        | _starts(after, states, about["at"])
        | _compared(times[0], after, states)
        for scenario, run, after in zip(scenarios, runs, times, strict=True)
    ]
    shown = [{"scenario": scenario} | run for scenario, run in zip(scenarios, runs, strict=True)]
    return {"runs": shown, "now": {**about, "sides": sides}}


def shown(user: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored answer for a reader: jobs that the reader may not see are counted alone. Two
    queries."""
    lists = [side[which] for side in stored["sides"] for which in ("gains", "losses")]
    names = jobs.names_for(user, list({job["id"] for found in lists for job in found}))
    owners = {
        str(pk): owner
        for pk, owner in Job.objects.filter(pk__in=names).values_list("pk", "owner__username")
    }
    sides = []
    for side in stored["sides"]:
        seen = {
            which: [
                job | {"name": names[job["id"]], "owner": owners.get(job["id"], "")}
                for job in side[which]
                if job["id"] in names
            ]
            for which in ("gains", "losses")
        }
        hidden = sum(len(side[which]) - len(seen[which]) for which in seen)
        sides.append(side | seen | {"hidden": hidden})
    return {**stored, "sides": sides}


Times = Mapping[str, tuple[float | None, float | None]]  # start and end of each job, by id


def _starts(times: Times, states: Mapping[str, str], at: float) -> dict[str, Any]:
    """Return when the jobs that wait now start and end, in seconds from now on."""
    waiting = [times[job] for job, state in states.items() if state == "waiting"]
    starts = sorted(start - at for start, _ in waiting if start is not None)
    ends = sorted(end - at for _, end in waiting if end is not None)
    return {
        "starting": len(starts),
        "avg_start_s": round(fsum(starts) / len(starts), 3) if starts else 0.0,
        "p95_start_s": round(percentile(starts, 95), 3),
        "avg_end_s": round(fsum(ends) / len(ends), 3) if ends else 0.0,
        "p95_end_s": round(percentile(ends, 95), 3),
        "never_end": sum(end is None for _, end in times.values()),
    }


def _compared(before: Times, after: Times, states: Mapping[str, str]) -> dict[str, Any]:
    """Return how many jobs end earlier or later, and those that do so most. One that does not end
    at all comes first."""
    gains: list[dict[str, Any]] = []
    losses: list[dict[str, Any]] = []
    for job, state in states.items():
        (old_start, old_end), (new_start, new_end) = before[job], after[job]
        by = None if old_end is None or new_end is None else new_end - old_end
        if old_end == new_end or (by is not None and abs(by) < forecasting.NOTICED_S):
            continue
        row = {
            "id": job,
            "state": state,
            "by_s": None if by is None else round(by, 1),
            "old_start_at": old_start,
            "new_start_at": new_start,
            "old_end_at": old_end,
            "new_end_at": new_end,
        }
        later = new_end is None or (by is not None and by > 0)
        (losses if later else gains).append(row)
    for rows in (gains, losses):
        rows.sort(key=lambda row: (row["by_s"] is not None, -abs(row["by_s"] or 0.0), row["id"]))
    return {
        "gaining": len(gains),
        "losing": len(losses),
        "gains": gains[:SHOWN],
        "losses": losses[:SHOWN],
    }


def _usual(user: User, found: forecasting.Present) -> dict[str, float]:
    """Return how long jobs of the last week ran, by virtual cluster, where it has one of which
    nothing is known."""
    names = {gang.vc for gang in found.gangs if gang.expected_s is None}
    now = timezone.now().timestamp()
    known = tenancy.visible_to(user).filter(name__in=names)
    return {
        vc.name: forecasting.usual_s(forecasting.recent_of(user, vc, now, wanted=False)[1])
        for vc in known
    }


def _changes(request: Mapping[str, Any]) -> list[what_if.GpuChange]:
    return [
        what_if.GpuChange(change["virtual_cluster"], change["gpu_model"], change["gpus"])
        for change in request["changes"]
    ]
