"""All writes to virtual clusters but for their members (see `memberships`). Only admins write, and
VC admins to the settings of their own; the API checks that before it calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Sum

from skep_platform.accounts import groups
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import notifications, ports
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.tenancy import claims, service_accounts
from skep_platform.tenancy.models import NAME, PinnedCell, Quota, VcCell, VirtualCluster, choice_of
from skep_scheduler import policies
from skep_scheduler.inventory import gpu_model

MAX_MODELS = 64
MAX_GPUS = 1_000_000


@transaction.atomic
def create(
    user: User, name: str, description: str = "", quotas: Mapping[str, int] | None = None
) -> VirtualCluster:
    """Create a virtual cluster. Raises Conflict `name_taken`, SkepError `name_invalid` and what
    `set_quotas` raises."""
    _check_name(name)
    try:
        with transaction.atomic():
            vc = VirtualCluster.objects.create(name=name, description=description)
    except IntegrityError:
        raise _taken(name) from None
    record("vc", vc.pk, "vc.created", f"Virtual cluster {name} was created.", actor=_who(user))
    audit.record("vc.create", "vc", vc.pk, name, after={"description": description}, vc=vc)
    ports.claims_changed.call()
    if quotas:
        set_quotas(user, vc, quotas)
    notifications.notify_topic("cluster")
    return vc


CHANGEABLE = ("name", "description", "job_visibility", "default_image")


@transaction.atomic
def update(user: User, vc: VirtualCluster, **fields: str) -> VirtualCluster:
    """Set any of name, description, job_visibility, default_image. Raises Conflict
    `name_taken`, SkepError `name_invalid` and NotFound."""
    vc = _locked(vc)  # what others change at the same time stays
    before = {name: getattr(vc, name) for name in CHANGEABLE}
    if "name" in fields:
        _check_name(fields["name"])
    for name in before.keys() & fields.keys():
        setattr(vc, name, fields[name])
    try:
        with transaction.atomic():
            vc.save()
    except IntegrityError:
        raise _taken(vc.name) from None
    message = f"Virtual cluster {vc.name} was changed: {', '.join(sorted(fields))}."
    record("vc", vc.pk, "vc.changed", message, actor=_who(user), before=before, after=fields)
    after = {name: getattr(vc, name) for name in before}
    audit.record("vc.update", "vc", vc.pk, vc.name, before=before, after=after, vc=vc)
    if vc.name != before["name"]:
        ports.claims_changed.call()
    if vc.job_visibility != before["job_visibility"]:
        notifications.notify_topic("jobs")
    notifications.notify_topic("cluster")
    return vc


@transaction.atomic
def delete(user: User, vc: VirtualCluster) -> None:
    """Delete a virtual cluster. Raises Conflict `vc_has_jobs` when a job of it was ever submitted,
    and `vc_owns_images` when an image would become visible to all with it; NotFound."""
    groups.lock()  # first, as who changes its members does
    _locked(vc)  # no job can reference it meanwhile
    jobs = ports.jobs_in.call(vc.pk)
    if jobs:
        message = f"{jobs} jobs belong to {vc.name}; take its quota and members away instead."
        raise Conflict(message, code="vc_has_jobs", jobs=jobs)
    alone = ports.images_only_of.call(vc.pk)
    if alone:
        message = f"These images are for {vc.name} only; delete them first: {', '.join(alone)}."
        raise Conflict(message, code="vc_owns_images", images=alone)
    record("vc", vc.pk, "vc.deleted", f"Virtual cluster {vc.name} was deleted.", actor=_who(user))
    audit.record("vc.delete", "vc", vc.pk, vc.name, vc=vc)
    service_accounts.remove_all(user, vc)
    vc.delete()
    ports.claims_changed.call()
    notifications.notify_topic("cluster")


@transaction.atomic
def set_quotas(
    user: User,
    vc: VirtualCluster,
    quotas: Mapping[str, int],
    *,
    read: Mapping[str, int] | None = None,
) -> None:
    """Replace all quotas of a virtual cluster; 0 takes a model away. Less than is in use is
    allowed and stops nothing: the next jobs wait. A model that no node has yet may be given
    freely; else the sum over all virtual clusters may not be raised above what the cluster holds.

    Raises SkepError `quota_invalid`, `quota_exceeds_cluster` and `cells_do_not_fit`, and Conflict
    `quotas_stale` if the quotas are no longer those that were `read`."""
    _check_quotas(quotas)
    claims.lock()
    owned = claims.read()
    before = dict(vc.quotas.values_list("gpu_model", "gpus"))
    after = _normalized(quotas)
    # What is as it shall be was changed so by this very request, whose answer was lost.
    if read is not None and before not in (_normalized(read), after):
        message = "Someone else has changed the quotas meanwhile; look at them and try again."
        raise Conflict(message, code="quotas_stale", quotas=before)
    _check_capacity(vc, before, after)
    vc.quotas.exclude(gpu_model__in=after).delete()
    Quota.objects.bulk_create(
        [Quota(vc=vc, gpu_model=model, gpus=gpus) for model, gpus in after.items()],
        update_conflicts=True,
        unique_fields=["vc", "gpu_model"],
        update_fields=["gpus"],
    )
    if before != after:
        message = f"The quota of {vc.name} is now {_words(after)}."
        data = {"before": before, "after": after}
        record("vc", vc.pk, "quota.changed", message, actor=_who(user), **data)
        audit.record("vc.quota.update", "vc", vc.pk, vc.name, before=before, after=after, vc=vc)
        if _raised(before, after) and (VcCell.objects.exists() or PinnedCell.objects.exists()):
            ports.check_raised_claims.call(
                owned
            )  # without cells, counts fit whenever their sum does
        ports.claims_changed.call()
        notifications.notify_scheduler()
        notifications.notify_topic("cluster")


def _normalized(quotas: Mapping[str, int]) -> dict[str, int]:
    return {gpu_model(model): gpus for model, gpus in sorted(quotas.items()) if gpus}


def _locked(vc: VirtualCluster) -> VirtualCluster:
    """Return the row as it is now, locked. Raises NotFound: it was deleted since it was read."""
    row = VirtualCluster.objects.select_for_update().filter(pk=vc.pk).first()
    if row is None:
        raise NotFound(f"There is no virtual cluster named {vc.name}.")
    return row


def _check_name(name: str) -> None:
    try:
        NAME(name)
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=str(name)[:100]) from None


def _check_quotas(quotas: Mapping[str, int]) -> None:
    if len(quotas) > MAX_MODELS:
        raise SkepError("At most 64 GPU models.", code="quota_invalid", models=len(quotas))
    for model, gpus in quotas.items():
        if (
            not model.strip()
            or not model.isprintable()
            or len(model) > 100
            or not 0 <= gpus <= MAX_GPUS
        ):
            message = f"A quota is a GPU model and a number from 0 to {MAX_GPUS}."
            raise SkepError(message, code="quota_invalid", gpu_model=model[:100], gpus=gpus)
    for model, times in Counter(map(gpu_model, quotas)).items():
        if times > 1:
            message = f"{model} is listed by {times} of its names; add the numbers."
            raise SkepError(message, code="quota_invalid", gpu_model=model)


def _check_capacity(vc: VirtualCluster, before: dict[str, int], after: dict[str, int]) -> None:
    raised = _raised(before, after)
    held = ports.gpus_by_model.call() if raised else {}
    others = Quota.objects.exclude(vc=vc).filter(gpu_model__in=raised).values("gpu_model")
    taken_by = dict(others.annotate(n=Sum("gpus")).values_list("gpu_model", "n"))
    for model in sorted(raised & held.keys()):
        asked, taken, has = after[model], taken_by.get(model, 0), held[model]
        if has and asked + taken > has:
            raise SkepError(
                f"The cluster has {has} {model}; {taken} belong to other virtual clusters, "
                f"so {vc.name} can own at most {max(has - taken, 0)}.",
                code="quota_exceeds_cluster",
                gpu_model=model,
                asked=asked,
                others=taken,
                cluster=has,
            )


def _raised(before: Mapping[str, int], after: Mapping[str, int]) -> set[str]:
    return {model for model, gpus in after.items() if gpus > before.get(model, 0)}


def _words(quotas: Mapping[str, int]) -> str:
    return ", ".join(f"{gpus} x {model}" for model, gpus in quotas.items()) or "empty"


def _taken(name: str) -> Conflict:
    return Conflict(f"A virtual cluster named {name} exists.", code="name_taken", name=name)


def _who(user: User | None) -> str:
    return user.get_username() if user else ""


def known_policies() -> list[dict[str, Any]]:
    """Return every policy that may be chosen: its name, description and parameters."""
    return [
        {**policies.schema(policy), "is_default": policy.name == policies.DEFAULT}
        for policy in policies.POLICIES
    ]


def chosen_policy(vc: VirtualCluster) -> dict[str, Any]:
    """Return the name of the policy and the parameters that differ from its defaults."""
    stored = vc.policy or {}
    return {
        "name": stored.get("name") or policies.DEFAULT,
        "parameters": stored.get("parameters") or {},
    }


@transaction.atomic
def choose_policy(user: User, vc: VirtualCluster, name: str, parameters: Mapping[str, Any]) -> None:
    """Order the queue of a virtual cluster by this policy from the next tick on. What runs goes on.

    Raises SkepError `unknown_policy` and `bad_policy_parameter`, NotFound."""
    wanted = {"name": name, "parameters": dict(parameters)}
    try:
        policies.check(choice_of(wanted))
    except policies.PolicyError as error:
        raise SkepError(error.message, code=error.code, **error.details) from None
    before = chosen_policy(vc)
    if before == wanted:
        return
    vc.policy = wanted
    vc.save(update_fields=["policy", "updated_at"])
    message = f"Jobs of {vc.name} wait in the order of the policy {name}."
    actor = user.get_username()
    record("vc", vc.pk, "policy.changed", message, actor=actor, before=before, after=wanted)
    audit.record("vc.policy.update", "vc", vc.pk, vc.name, before=before, after=wanted, vc=vc)
    notifications.notify_scheduler()
    notifications.notify_topic("cluster")
