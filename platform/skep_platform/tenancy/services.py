"""All writes to virtual clusters. Only admins write, and managers to members and settings of their
own; the API checks that before it calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Count, Sum

from skep_platform.accounts import leaving
from skep_platform.accounts.models import User
from skep_platform.core import doorbells
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.tenancy import capacity, changes, claims
from skep_platform.tenancy.models import NAME, Membership, PinnedCell, Quota, VcCell, VirtualCluster
from skep_scheduler.inventory import gpu_model

MAX_MODELS = 64
MAX_GPUS = 1_000_000


@transaction.atomic
def create(
    user: User, name: str, description: str = "", quotas: Mapping[str, int] | None = None
) -> VirtualCluster:
    """Raises Conflict `name_taken`, SkepError `name_invalid` and what `set_quotas` raises."""
    _check_name(name)
    try:
        with transaction.atomic():
            vc = VirtualCluster.objects.create(name=name, description=description)
    except IntegrityError:
        raise _taken(name) from None
    record("vc", vc.pk, "vc.created", f"Virtual cluster {name} was created.", actor=_who(user))
    changes.changed()
    if quotas:
        set_quotas(user, vc, quotas)
    doorbells.ring_topic("cluster")
    return vc


@transaction.atomic
def update(user: User, vc: VirtualCluster, **fields: str) -> VirtualCluster:
    """Set any of name, description, job_visibility. Raises Conflict `name_taken` and SkepError
    `name_invalid`."""
    before = {name: getattr(vc, name) for name in ("name", "description", "job_visibility")}
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
    if vc.name != before["name"]:
        changes.changed()
    if vc.job_visibility != before["job_visibility"]:
        doorbells.ring_topic("jobs")
    doorbells.ring_topic("cluster")
    return vc


@transaction.atomic
def delete(user: User, vc: VirtualCluster) -> None:
    """Raises Conflict `vc_has_jobs` when a job of it was ever submitted, and `vc_owns_images` when
    an image would become everybody's with it."""
    VirtualCluster.objects.select_for_update().get(pk=vc.pk)  # no job can reference it meanwhile
    jobs = vc.jobs.count()
    if jobs:
        message = f"{jobs} jobs belong to {vc.name}; take its quota and members away instead."
        raise Conflict(message, code="vc_has_jobs", jobs=jobs)
    alone = _images_of_no_other(vc)
    if alone:
        message = f"These images are for {vc.name} only; delete them first: {', '.join(alone)}."
        raise Conflict(message, code="vc_owns_images", images=alone)
    record("vc", vc.pk, "vc.deleted", f"Virtual cluster {vc.name} was deleted.", actor=_who(user))
    vc.delete()
    changes.changed()
    doorbells.ring_topic("cluster")


@transaction.atomic
def set_quotas(user: User, vc: VirtualCluster, quotas: Mapping[str, int]) -> None:
    """Replace all quotas of a virtual cluster; 0 takes a model away. Less than is in use is
    allowed and stops nothing: the next jobs wait. A model that no node has yet may be promised
    freely; else the sum over all virtual clusters may not be raised above what the cluster holds.

    Raises SkepError `quota_invalid`, `quota_exceeds_cluster` and `cells_do_not_fit`."""
    _check_quotas(quotas)
    claims.lock()
    owned = claims.read()
    before = dict(vc.quotas.values_list("gpu_model", "gpus"))
    after = {gpu_model(model): gpus for model, gpus in sorted(quotas.items()) if gpus}
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
        if _raised(before, after) and (VcCell.objects.exists() or PinnedCell.objects.exists()):
            changes.raised(owned)  # without cells, counts fit whenever their sum does
        changes.changed()
        doorbells.ring_scheduler()
        doorbells.ring_topic("cluster")


@transaction.atomic
def set_member(
    user: User | None, vc: VirtualCluster, username: str, role: str, *, confirm: bool = False
) -> Membership:
    """Add a member, or change its role. Raises NotFound for an unknown user, and Conflict
    `last_manager` where no manager would be left and that was not confirmed."""
    member = User.objects.filter(username=username, deleted_at=None).first()
    if member is None:
        raise NotFound(f"There is no user named {username}.")
    if role != Membership.Role.MANAGER and not confirm:
        _keep_a_manager(vc, username)
    membership, _ = Membership.objects.update_or_create(
        vc=vc, user=member, defaults={"role": Membership.Role(role)}
    )
    message = f"{username} is {role} of {vc.name}."
    data = {"username": username, "role": role}
    record("vc", vc.pk, "member.set", message, actor=_who(user), **data)
    return membership


@transaction.atomic
def remove_member(
    user: User | None, vc: VirtualCluster, username: str, *, confirm: bool = False
) -> None:
    """The member's jobs in this virtual cluster stop. Raises NotFound when it is not a member, and
    Conflict `last_manager` where no manager would be left and that was not confirmed."""
    membership = Membership.objects.filter(vc=vc, user__username=username).first()
    if membership is None:
        raise NotFound(f"{username} is not a member of {vc.name}.")
    if not confirm:
        _keep_a_manager(vc, username)
    membership.delete()
    message = f"{username} left {vc.name}."
    record("vc", vc.pk, "member.removed", message, actor=_who(user), username=username)
    leaving.left(membership.user_id, _who(user))


def _keep_a_manager(vc: VirtualCluster, username: str) -> None:
    """Raises Conflict when this member is the only manager."""
    VirtualCluster.objects.select_for_update(no_key=True).get(pk=vc.pk)  # two may leave at once
    managers = vc.memberships.filter(role=Membership.Role.MANAGER)
    if list(managers.values_list("user__username", flat=True)[:2]) == [username]:
        message = (
            f"{username} is the last manager of {vc.name}: name another one first, or confirm that "
            "only admins shall manage it."
        )
        raise Conflict(message, code="last_manager", username=username)


def _images_of_no_other(vc: VirtualCluster) -> list[str]:
    shared = vc.images.model.objects.annotate(holders=Count("virtual_clusters")).filter(holders=1)
    return list(shared.filter(virtual_clusters=vc).order_by("name").values_list("name", flat=True))


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
    held = capacity.gpus_by_model() if raised else {}
    others = Quota.objects.exclude(vc=vc).filter(gpu_model__in=raised).values("gpu_model")
    promised = dict(others.annotate(n=Sum("gpus")).values_list("gpu_model", "n"))
    for model in sorted(raised & held.keys()):
        asked, taken, has = after[model], promised.get(model, 0), held[model]
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
