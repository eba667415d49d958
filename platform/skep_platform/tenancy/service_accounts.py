"""Service accounts: users for programs, owned by a virtual cluster. All reads and writes.

A service account has no password and cannot log in. It has a role, viewer or member, in its own
virtual cluster and in no other, and API tokens that VC admins make for it. Its jobs belong to it
and are seen as other jobs of the virtual cluster are.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from skep_platform.accounts import groups, names
from skep_platform.accounts import services as accounts
from skep_platform.accounts.models import ApiToken, Scope, User
from skep_platform.audit import services as audit
from skep_platform.core import ports
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.tenancy import memberships
from skep_platform.tenancy.limits import limit
from skep_platform.tenancy.models import (
    NAME,
    Membership,
    Role,
    RoleGrant,
    ServiceAccount,
    VirtualCluster,
)

ROLES = [Role.VIEWER.value, Role.MEMBER.value]
SCOPES = [Scope.READ.value, Scope.SUBMIT.value]


def of(vc: VirtualCluster) -> QuerySet[ServiceAccount]:
    """Return the service accounts of a virtual cluster, each with `user`, `role`, the number of its
    `tokens`, and when one of these was used last (`last_used_at`)."""
    roles = Membership.objects.filter(vc=OuterRef("vc"), user=OuterRef("user"))
    living = Q(user__auth_token_set__expiry__gt=timezone.now(), user__auth_token_set__job_id=None)
    newest = ApiToken.objects.filter(user=OuterRef("user"), last_used_at__isnull=False)
    return (
        ServiceAccount.objects.filter(vc=vc)
        .select_related("user")
        .annotate(
            username=F("user__username"),
            role=Subquery(roles.values("role")[:1]),
            tokens=Count("user__auth_token_set", filter=living),
            last_used_at=Subquery(newest.order_by("-last_used_at").values("last_used_at")[:1]),
        )
    )


def find(vc: VirtualCluster, name: str) -> ServiceAccount:
    """Return a service account as `of` does. Raises NotFound."""
    account = of(vc).filter(name=name).first()
    if account is None:
        raise NotFound(f"{vc.name} has no service account named {name}.")
    return account


@transaction.atomic
def create(
    actor: User, vc: VirtualCluster, name: str, description: str = "", role: str = Role.MEMBER
) -> ServiceAccount:
    """Create a service account without tokens. Raises SkepError `name_invalid`, Conflict
    `name_taken` and `too_many_service_accounts`."""
    groups.lock()
    try:
        NAME(name)
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=name[:100]) from None
    now, most = ServiceAccount.objects.filter(vc=vc).count(), limit(vc, "service_accounts")
    if now >= most:
        message = f"{vc.name} has {now} service accounts and may have {most}; remove one first."
        details = {"limit": "service_accounts", "now": now, "most": most}
        raise Conflict(message, code="too_many_service_accounts", **details)
    # No name of a virtual cluster has a dot, so no two of them can make the same name.
    user = accounts.create_service_account(f"{names.SERVICE_PREFIX}{vc.name}.{name}")
    ServiceAccount.objects.create(vc=vc, user=user, name=name, description=description)
    after = {"role": role, "description": description}
    audit.record("service_account.create", "user", user.pk, user.username, after=after, vc=vc)
    message = f"The service account {user.username} was created, as {role}."
    record("vc", vc.pk, "service_account.created", message, actor=str(actor), username=str(user))
    _set_role(actor, vc, user, role)
    return find(vc, name)


@transaction.atomic
def update(actor: User, vc: VirtualCluster, name: str, **changes: Any) -> ServiceAccount:
    """Set any of description, role, is_active. One that is deactivated loses its tokens and its
    jobs stop; those of a viewer stop, too. Raises NotFound."""
    groups.lock()
    account = find(vc, name)
    user, before = account.user, _audited(account)
    if "description" in changes:
        account.description = changes["description"]
        account.save(update_fields=["description", "updated_at"])
    if changes.get("is_active", user.is_active) != user.is_active:
        user.is_active = changes["is_active"]
        accounts.sign_out(user)
        user.save()
    if "role" in changes:
        _set_role(actor, vc, user, changes["role"])
    if not user.is_active:
        ports.stop_jobs_of.call(user.pk, str(actor))
    account = find(vc, name)
    if (after := _audited(account)) != before:
        audit.record(
            "service_account.update",
            "user",
            user.pk,
            user.username,
            before=before,
            after=after,
            vc=vc,
        )
        message = f"The service account {user} was changed: {', '.join(sorted(changes))}."
        record("vc", vc.pk, "service_account.changed", message, actor=str(actor))
    return account


@transaction.atomic
def remove(actor: User, vc: VirtualCluster, name: str) -> None:
    """Remove a service account: its tokens end at once and its jobs stop. Raises NotFound."""
    groups.lock()
    _remove(actor, vc, find(vc, name))


def remove_all(actor: User, vc: VirtualCluster) -> None:
    """Remove the service accounts of a virtual cluster that is about to be deleted."""
    groups.lock()
    for account in of(vc):
        _remove(actor, vc, account)


def _remove(actor: User, vc: VirtualCluster, account: ServiceAccount) -> None:
    user = account.user
    before = _audited(account)
    audit.record("service_account.delete", "user", user.pk, user.username, before=before, vc=vc)
    message = f"The service account {user} was removed."
    record("vc", vc.pk, "service_account.removed", message, actor=str(actor), username=str(user))
    user.is_active = False
    accounts.sign_out(user)
    user.save()
    RoleGrant.objects.filter(user=user).delete()
    memberships.refresh(vcs=[vc.pk], users=[user.pk], actor=str(actor))
    account.delete()
    accounts.remove_row(user)


def _set_role(actor: User, vc: VirtualCluster, user: User, role: str) -> None:
    RoleGrant.objects.update_or_create(vc=vc, user=user, defaults={"role": Role(role)})
    memberships.refresh(vcs=[vc.pk], users=[user.pk], actor=str(actor))


def _audited(account: Any) -> dict[str, Any]:
    return {
        "description": account.description,
        "role": account.role,
        "is_active": account.user.is_active,
    }


@transaction.atomic
def create_token(
    vc: VirtualCluster, name: str, *, token_name: str, seconds: float | None, scope: str
) -> tuple[ApiToken, str]:
    """Create a token of a service account; see `accounts.services.create_token`. Raises NotFound,
    Conflict `service_account_disabled`."""
    user = find(vc, name).user
    if not user.is_active:
        message = f"{user} is disabled; enable it first."
        raise Conflict(message, code="service_account_disabled", username=str(user))
    return accounts.create_token(user, token_name, seconds, scope, vc=vc)


def delete_token(vc: VirtualCluster, name: str, public_id: object) -> None:
    """Revoke a token of a service account. Raises NotFound."""
    accounts.delete_token(find(vc, name).user, public_id, vc=vc)
