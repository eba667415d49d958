"""All writes of simulations: asking, stopping, and what their worker says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from celery import current_app
from django.db import IntegrityError, transaction
from django.db.models import Count
from django.db.models.functions import Now
from django.utils import timezone
from kombu.exceptions import OperationalError

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core.bulk import deletion_time
from skep_platform.core.compiled import Compiled
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.core.notifications import notify_topic
from skep_platform.simulations import history
from skep_platform.simulations.models import ACTIVE, Simulation, SimulationState
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.model import PolicyChoice
from skep_scheduler.policies import PolicyError
from skep_scheduler.simulator.command import check_policy, read_policy
from skep_scheduler.simulator.workload import WorkloadError

log = structlog.get_logger(__name__)

KEPT = timedelta(days=90)
MOST_KEPT = 100  # of one user
DELETED = 100  # at a time, with their results
# After this long without a word of its worker, a simulation has failed.
LOST_AFTER = timedelta(seconds=60)


def create(user: User, vc: VirtualCluster | None, request: dict[str, Any]) -> Simulation:
    """Create a simulation that waits for its turn. `request` is what `api.SimulationBody` checked.

    Raises Conflict `simulation_active` while another one of the user is not over, and SkepError for
    a policy that is not to be had or named twice, and for a change that cannot be made.
    """
    check_policies(request["policies"], request["placement"])
    _check_changes(user, vc, request["changes"])
    return store(user, vc, request)


def store(user: User, vc: VirtualCluster | None, request: dict[str, Any]) -> Simulation:
    """Store a question that was checked. Raises Conflict `simulation_active`."""
    try:
        with transaction.atomic():
            made = Simulation.objects.create(owner=user, vc=vc, request=request)
            audit.record(
                "simulation.create",
                "simulation",
                made.pk,
                vc=vc,
                policies=request["policies"],
                source=request["source"],
            )
    except IntegrityError:
        raise Conflict(
            "Another simulation of yours is not over. Wait for it, or stop it.",
            code="simulation_active",
        ) from None
    transaction.on_commit(_hint, robust=True)
    return made


def check_policies(policies: Sequence[str], placement: str) -> None:
    """Raises SkepError for a policy that cannot be simulated so, and `duplicate_policy`."""
    seen: list[PolicyChoice] = []
    for policy in policies:
        try:
            check_policy(policy, placement)
            choice = read_policy(policy)
        except (WorkloadError, PolicyError) as error:
            raise SkepError(error.message, code=error.code, **error.details) from None
        if choice in seen:
            message = f"The policy {policy} is named twice. Name each of them once."
            raise SkepError(message, code="duplicate_policy", policy=policy)
        seen.append(choice)


def _check_changes(
    user: User, vc: VirtualCluster | None, changes: Sequence[Mapping[str, Any]]
) -> None:
    """Raises SkepError `unknown_virtual_cluster`; `gpus_not_owned` for a change that takes GPUs
    which its virtual cluster does not own: nothing would become of it."""
    if not changes:
        return
    check_names(user, {change["virtual_cluster"] for change in changes} - {""})
    owned = {name: dict(of_vc) for name, of_vc in history.cluster(user).owned.items()}
    for change in changes:
        model, name = change["gpu_model"], change["virtual_cluster"] or (vc.name if vc else "")
        if not name and change["gpus"] < 0:
            message = (
                "GPUs that no one owns cannot be taken away: name the virtual cluster that gives "
                f"its {model}."
            )
            raise SkepError(message, code="gpus_not_owned", gpu_model=model, owned=0)
        of_vc = owned.setdefault(name, {})
        had = of_vc.get(model, 0)
        of_vc[model] = had + change["gpus"]
        if of_vc[model] < 0:
            message = f"{name} owns {had} GPUs of the model {model}: take at most so many from it."
            raise SkepError(
                message, code="gpus_not_owned", virtual_cluster=name, gpu_model=model, owned=had
            )


def check_names(user: User, names: set[str]) -> None:
    """Raises SkepError `unknown_virtual_cluster` unless the user may know them all."""
    known = set(tenancy.visible_to(user).filter(name__in=names).values_list("name", flat=True))
    if unknown := sorted(names - known):
        message = f"There is no virtual cluster {unknown[0]}: changes name those that there are."
        raise SkepError(message, code="unknown_virtual_cluster", virtual_cluster=unknown[0])


def stop(simulation: Simulation) -> None:
    """Ask a simulation to stop; one that has not begun is stopped at once. One that is over is left
    as it is."""
    with transaction.atomic():
        rows = Simulation.objects.filter(pk=simulation.pk, state__in=ACTIVE)
        if not rows.update(stop_requested=True):
            return
        audit.record("simulation.stop", "simulation", simulation.pk, vc=simulation.vc)
        rows.filter(state=SimulationState.QUEUED).update(
            state=SimulationState.STOPPED, finished_at=Now()
        )
    simulation.refresh_from_db()


def is_due() -> bool:
    """Return whether a simulation waits, or the worker of one may be gone. One query."""
    return _UNFINISHED.finds()


_UNFINISHED = Compiled(
    lambda: Simulation.objects.filter(state__in=[SimulationState.QUEUED, SimulationState.RUNNING])
)


def claim() -> Simulation | None:
    """Return the simulation that is to run now, marked as running; None while another one runs."""
    fail_lost()
    if Simulation.objects.filter(state=SimulationState.RUNNING).exists():
        return None
    try:
        with transaction.atomic():
            queued = Simulation.objects.filter(state=SimulationState.QUEUED).order_by("pk")
            found = queued.select_for_update(skip_locked=True).first()
            if found is None:
                return None
            found.state = SimulationState.RUNNING
            found.started_at = found.alive_at = timezone.now()
            found.save()
    except IntegrityError:
        return None  # another worker was faster
    notify_topic("simulation", found.pk)
    return found


def fail_lost() -> None:
    """End simulations whose worker is gone."""
    message = "The worker that ran it was stopped. Simulate again."
    rows = Simulation.objects.filter(
        state=SimulationState.RUNNING, alive_at__lt=timezone.now() - LOST_AFTER
    )
    rows.update(
        state=SimulationState.FAILED,
        finished_at=Now(),
        error={"code": "worker_lost", "message": message, "details": {}},
    )


def progress(pk: UUID, ended: int, total: int) -> bool:
    """Store how far it is. Returns whether it goes on: False when it was stopped, or given up as
    lost."""
    rows = Simulation.objects.filter(pk=pk, state=SimulationState.RUNNING, stop_requested=False)
    return bool(rows.update(jobs_ended=ended, jobs_total=total, alive_at=Now()))


def finish(
    pk: UUID,
    state: SimulationState,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    rows = Simulation.objects.filter(pk=pk, state=SimulationState.RUNNING)
    rows.update(state=state, result=result, error=error, finished_at=Now())
    notify_topic("simulation", pk)


def tidy() -> None:
    """Delete old simulations, and those beyond MOST_KEPT of a user."""
    delete_in_batches(Simulation.objects.filter(finished_at__lt=deletion_time() - KEPT), DELETED)
    for owner in (
        Simulation.objects.order_by()
        .values("owner")
        .annotate(n=Count("pk"))
        .filter(n__gt=MOST_KEPT)
        .values_list("owner", flat=True)[:1000]
    ):
        rows = Simulation.objects.filter(owner=owner, finished_at__isnull=False)
        newest = rows.order_by("-created_at").values_list("pk", flat=True)[:MOST_KEPT]
        rows.exclude(pk__in=list(newest)).delete()


def _hint() -> None:
    """Make it begin at once; without a broker the periodic task does it."""
    try:
        current_app.send_task("skep.simulations.run", expires=60, retry=False)
    except OperationalError as error:
        log.warning("simulation_not_hinted", error=type(error).__name__)
