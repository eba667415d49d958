"""What another policy would do to a virtual cluster: its present queue, run on under the policy
that it has and under the other one.

The worker takes the snapshot: what runs in the virtual cluster goes on where it is, what waits is
placed by the live engine on what the virtual cluster owns. Where these are few jobs, those that
were submitted in the last week come once more, in the same intervals, from now on. A job is
expected to run as long as was predicted, else as its owner declared, else as long as the median
job of the virtual cluster ran. Opportunistic jobs, which follow no policy, are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.core.errors import SkepError
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import Job
from skep_platform.scheduling import ended_services, read_facts, shared_state
from skep_platform.simulations import history, services
from skep_platform.simulations.models import Simulation, SimulationState
from skep_platform.tenancy.models import VirtualCluster, choice_of
from skep_platform.tenancy.services import chosen_policy
from skep_scheduler import policies
from skep_scheduler.model import Allocation, Gang, Inventory
from skep_scheduler.simulator.snapshot import Snapshot, encode
from skep_scheduler.state import ClusterState

SOURCE = "live"
MOST_JOBS = 2_000  # that wait, run or come again
FEW = 20  # below so many jobs those of the last week are added
RECENT = timedelta(days=7)
MOST_RECENT = 300
SAME_FOR = timedelta(minutes=10)  # an answer to equal facts is given again
SHOWN = 10  # jobs that gain most, and that lose most
NOTICED_S = 60.0  # a difference below it is none
UNKNOWN_S = 3600.0  # of a job of which nothing is known, where no job has ended yet
LEAST_S = 60.0
STATES = ("waiting", "running")  # what a job does at the moment of a snapshot


@dataclass(frozen=True, slots=True)
class Present:
    """The guaranteed gangs of a virtual cluster, or of all of them, at one moment.

    running: those that hold places and are not about to leave them
    waiting: those without a place, also those that have a reserved one
    left_out: how many gangs are not among them: opportunistic ones, and those that leave
    """

    inventory: Inventory
    running: list[Allocation]
    waiting: list[Gang]
    left_out: int

    @property
    def gangs(self) -> list[Gang]:
        return [*(held.gang for held in self.running), *self.waiting]

    def left_s(self, now: float, usual_s: Mapping[str, float]) -> dict[str, float]:
        """Return how long each gang has to run yet (seconds), by id. `usual_s`: how long a gang
        runs of which nothing is known, by virtual cluster."""
        left = {
            held.gang.id: _left(held.gang, now - held.placed_at, usual_s.get(held.gang.vc))
            for held in self.running
        }
        return left | {gang.id: _left(gang, 0.0, usual_s.get(gang.vc)) for gang in self.waiting}

    def about(self, now: float) -> dict[str, Any]:
        """Return what is shown of it, and under `states` what each gang does, by id."""
        states = {gang.id: "waiting" for gang in self.waiting}
        return {
            "at": now,
            "running": len(self.running),
            "waiting": len(self.waiting),
            "unknown_durations": sum(gang.expected_s is None for gang in self.gangs),
            "opportunistic": self.left_out,
            "states": states | {held.gang.id: "running" for held in self.running},
        }


def present(state: ClusterState, vc: str) -> Present:
    """Return what runs and waits now. `vc` "": in all virtual clusters."""
    placed = [held for held in state.running.values() if vc in ("", held.gang.vc)]
    running = [
        held for held in placed if not (held.gang.opportunistic or held.downgraded or held.leaving)
    ]
    known = {gang.id: gang for gang in state.queued() if gang.id not in state.running}
    known |= {gang: nominated.gang for gang, nominated in state.nominated.items()}
    waiting = [gang for gang in known.values() if vc in ("", gang.vc) and not gang.opportunistic]
    ids = {held.gang.id for held in placed if not held.leaving}
    ids |= {gang.id for gang in state.waiting.values() if vc in ("", gang.vc)}
    ids -= {held.gang.id for held in running} | {gang.id for gang in waiting}
    return Present(state.inventory, running, waiting, len(ids))


def usual_s(lasted: Sequence[float]) -> float:
    """Return how long a job runs of which nothing is known, by those of the last week."""
    return median(lasted) if lasted else UNKNOWN_S


def ask(user: User, vc: VirtualCluster, wanted: Mapping[str, Any]) -> tuple[Simulation, bool]:
    """Return the forecast of a policy, `{name, parameters}`, for a virtual cluster, and whether it
    was asked for anew; else equal facts were asked for a short time ago.

    Raises SkepError for a policy that a virtual cluster cannot have, and Conflict
    `simulation_active`.
    """
    choices = [chosen_policy(vc), {"name": wanted["name"], "parameters": wanted["parameters"]}]
    try:
        for choice in choices:
            policies.check(choice_of(choice))
    except policies.PolicyError as error:
        raise SkepError(error.message, code=error.code, **error.details) from None
    with shared_state.view() as state:
        now = present(state, vc.name)
    facts: list[Any] = [sorted(known.id for known in now.waiting)]
    facts.append(sorted((held.gang.id, held.placed_at) for held in now.running))
    text = json.dumps([choices, facts], sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    usable = [SimulationState.QUEUED, SimulationState.RUNNING, SimulationState.SUCCEEDED]
    alike = Simulation.objects.filter(
        vc=vc,
        state__in=usable,
        created_at__gt=timezone.now() - SAME_FOR,
        request__fingerprint=fingerprint,
    )
    found = alike.select_related("owner", "vc").order_by("-pk").first()
    if found is not None:
        return found, False
    request = {
        "source": SOURCE,
        "policies": [label(choice) for choice in choices],
        "choices": choices,
        "fingerprint": fingerprint,
        "placement": "cells",
        "jobs": 0,
        "load": 1.0,
        "seed": 0,
        "restart_s": 0.0,
        "changes": [],
    }
    return services.store(user, vc, request), True


def label(choice: Mapping[str, Any]) -> str:
    """Return a policy with its parameters, as `skep simulate` takes it."""
    values = ",".join(f"{name}={value}" for name, value in sorted(choice["parameters"].items()))
    return f"{choice['name']}:{values}" if values else str(choice["name"])


def write(simulation: Simulation, path: Path) -> tuple[int, dict[str, Any]]:
    """Write the snapshot of this moment for the process that simulates it. Returns the number of
    jobs in it, and what is shown of them. Raises SkepError `no_jobs`, `too_many_jobs`."""
    vc, request = simulation.vc, simulation.request
    assert vc is not None
    now = timezone.now().timestamp()
    with shared_state.view() as state:
        found = present(state, vc.name)
    running, waiting = found.running, found.waiting
    recent, lasted = recent_of(simulation.owner, vc, now, wanted=len(running) + len(waiting) < FEW)
    number = len(running) + len(waiting) + len(recent)
    if not number:
        message = "No guaranteed job waits or runs, and none ended in the last week."
        raise SkepError(message, code="no_jobs")
    if number > MOST_JOBS:
        message = f"More than {MOST_JOBS:,} jobs wait and run: a forecast takes at most so many."
        raise SkepError(message, code="too_many_jobs", most=MOST_JOBS)
    left = found.left_s(now, {vc.name: usual_s(lasted)})
    left |= {gang.id: seconds for gang, seconds in recent}
    come = [gang for gang, _ in recent]
    inventory = found.inventory
    if any(policies.learns_services(choice_of(choice)) for choice in request["choices"]):
        hour = ended_services.hour_now()
        inventory = ended_services.with_services(inventory, [vc.name], hour)
    snapshot = Snapshot(now, vc.name, inventory, tuple(running), (*waiting, *come), left)
    runs = [
        {"label": name, "choice": asdict(choice_of(choice)), "policy_of": vc.name, "changes": []}
        for name, choice in zip(request["policies"], request["choices"], strict=True)
    ]
    path.write_text(json.dumps({"snapshot": encode(snapshot), "runs": runs}))
    return number, found.about(now) | {"recent": len(recent)}


def summary(runs: Sequence[Mapping[str, Any]], about: dict[str, Any]) -> dict[str, Any]:
    """Return the forecast as it is stored: the figures of both policies, and the ids of the jobs
    that end earlier or later under the second one. `runs` are the two of the simulator."""
    states, now = about.pop("states"), about["at"]
    old, new = ({job: (wait, end) for job, wait, end, _ in run["jobs"]} for run in runs)
    changed, never = [], 0
    for job, (_, before) in old.items():
        after = new[job][1]
        if before is None or after is None:
            never += after is None
            continue
        if abs(after - before) >= NOTICED_S and job in states:
            changed.append((after - before, job, before, after))
    changed.sort()
    gains = [entry for entry in changed if entry[0] < 0]
    losses = [entry for entry in reversed(changed) if entry[0] > 0]
    sides = [{**run["figures"], "last_end_at": now + run["figures"]["last_end_s"]} for run in runs]
    return {
        **about,
        "sides": sides,
        "never_end": never,
        "gaining": len(gains),
        "losing": len(losses),
        "gains": [_changed(entry, states) for entry in gains[:SHOWN]],
        "losses": [_changed(entry, states) for entry in losses[:SHOWN]],
    }


def shown(user: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored forecast for a reader: jobs that the reader may not see are counted alone.
    Two queries."""
    ids = [job["id"] for side in ("gains", "losses") for job in stored[side]]
    names = jobs.names_for(user, ids)
    owners = {
        str(pk): owner
        for pk, owner in Job.objects.filter(pk__in=names).values_list("pk", "owner__username")
    }
    found = dict(stored)
    hidden = 0
    for side in ("gains", "losses"):
        seen = [job for job in stored[side] if job["id"] in names]
        hidden += len(stored[side]) - len(seen)
        found[side] = [
            job | {"name": names[job["id"]], "owner": owners.get(job["id"], "")} for job in seen
        ]
    return found | {"hidden": hidden}


def _changed(entry: tuple[float, str, float, float], states: Mapping[str, str]) -> dict[str, Any]:
    by, job, before, after = entry
    return {
        "id": job,
        "state": states[job],
        "by_s": round(by, 1),
        "old_end_at": before,
        "new_end_at": after,
    }


def _left(gang: Gang, ran_s: float, usual: float | None) -> float:
    """Return how long a gang has to run yet. One that overran its estimate is never taken for
    done."""
    before = gang.attained_gpu_s / gang.gpus if gang.gpus else 0.0
    ran = ran_s + before
    expected = gang.expected_s if gang.expected_s is not None else usual or UNKNOWN_S
    return max(expected - ran, 0.05 * ran, LEAST_S)


def recent_of(
    user: User, vc: VirtualCluster, now: float, *, wanted: bool
) -> tuple[list[tuple[Gang, float]], list[float]]:
    """Return the jobs of the last week as they would come again from now on, each with how long it
    ran, if they are `wanted`; and how long each of them ran in any case."""
    until = timezone.now()
    window = history.Window(until - RECENT, until, vc.pk, guaranteed=True)
    rows = list(history.jobs(user, window).reverse()[:MOST_RECENT])[::-1]
    lasted = [row["ran"].total_seconds() for row in rows]
    if not wanted or not rows:
        return [], lasted
    members = read_facts.members_of([str(row["pk"]) for row in rows])
    shift = now + 1 - (until - RECENT).timestamp()
    found = []
    for row, seconds in zip(rows, lasted, strict=True):
        pk = str(row["pk"])
        gang = Gang(
            pk,
            pk,
            vc.name,
            row["priority"],
            row["created_at"].timestamp() + shift,
            tuple(members[pk]),
            predicted_s=seconds,
            owner=row["user_name"],
        )
        found.append((gang, max(seconds, 1.0)))
    return found, lasted
