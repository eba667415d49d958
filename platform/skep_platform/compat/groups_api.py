"""OpenPAI's routes of groups. Their `acls` are roles in virtual clusters and grants of storages; no
group makes admins here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from skep_platform.accounts import current_user, groups
from skep_platform.accounts.models import Group, User
from skep_platform.compat.accounts_api import NOT_KEPT, find_vc
from skep_platform.compat.base import CompatView, Fields, done, wrapped
from skep_platform.core.api import validated
from skep_platform.core.errors import NotFound, SkepError
from skep_platform.storage import queries as storages
from skep_platform.storage import services as storage
from skep_platform.storage.models import StorageGrant
from skep_platform.tenancy import memberships
from skep_platform.tenancy.models import Membership, Role, RoleGrant, VirtualCluster

MOST_GROUPS = 5_000
MOST_MEMBERS = 10_000


class Names(serializers.ListField):
    child = serializers.CharField(max_length=63)


class Acls(Fields):
    admin = serializers.BooleanField(required=False)
    virtualClusters = Names(required=False, max_length=1000)
    storageConfigs = Names(required=False, max_length=1000)


class Extension(Fields):
    acls = Acls(required=False)


class GroupFields(Fields):
    groupname = serializers.CharField(max_length=63)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    externalName = serializers.CharField(max_length=255, allow_blank=True, required=False)
    extension = Extension(required=False)


class ExtensionFields(Fields):
    extension = Extension()


class DescriptionFields(Fields):
    description = serializers.CharField(max_length=500, allow_blank=True)


class ExternalNameFields(Fields):
    externalName = serializers.CharField(max_length=255, allow_blank=True)


def shown(found: Sequence[Group]) -> list[dict[str, Any]]:
    """Return groups as OpenPAI shows them. Two queries for all of them."""
    vcs, mounts = defaultdict(list), defaultdict(list)
    roles = RoleGrant.objects.filter(group__in=found, role__in=Membership.SUBMITTERS)
    for pk, name in roles.order_by("vc__name").values_list("group_id", "vc__name"):
        vcs[pk].append(name)
    grants = StorageGrant.objects.filter(group__in=found).order_by("storage__name")
    for pk, name in grants.values_list("group_id", "storage__name"):
        mounts[pk].append(name)
    return [
        {
            "groupname": group.name,
            "description": group.description,
            "externalName": group.external_name,
            "extension": {
                "acls": {
                    "admin": False,
                    "virtualClusters": vcs[group.pk],
                    "storageConfigs": mounts[group.pk],
                }
            },
        }
        for group in found
    ]


class GroupBase(CompatView):
    missing = "NoGroupError"


def _visible(request: Request) -> Any:
    """Select the groups that the caller may know: all for an admin, else its own."""
    user, found = current_user.user(request), groups.all_groups()
    return found if user.is_admin else found.filter(members__user=user)


class PaiGroupsView(GroupBase):
    def get(self, request: Request) -> Response:
        return Response(shown(list(_visible(request)[:MOST_GROUPS])))

    def post(self, request: Request) -> Response:
        """Create a group with its rights. For admins."""
        admin = current_user.admin(request)
        body = validated(GroupFields, request)
        with transaction.atomic():
            group = groups.create(
                admin, body["groupname"], body.get("description", ""), body.get("externalName", "")
            )
            _set_rights(admin, group, body.get("extension", {}).get("acls", {}))
        return done("group is created successfully", 201)

    def put(self, request: Request) -> Response:
        """Change a group: the fields that are there. For admins."""
        admin = current_user.admin(request)
        body = wrapped(GroupFields, request)
        if "groupname" not in body:
            raise serializers.ValidationError({"groupname": ["This field is required."]})
        _update(admin, body["groupname"], body)
        return done(f"update group {body['groupname']} successfully.", 201)


@transaction.atomic
def _update(admin: User, name: str, body: dict[str, Any]) -> None:
    group = groups.find(name)
    names = {"description": "description", "externalName": "external_name"}
    changes = {names[field]: str(value) for field, value in body.items() if field in names}
    if changes:
        groups.update(admin, group, **changes)
    _set_rights(admin, group, body.get("extension", {}).get("acls", {}))


def _set_rights(admin: User, group: Group, acls: dict[str, Any]) -> None:
    """Set the rights that are named; the others stay."""
    if acls.get("admin"):
        message = "A group makes no admins here: set `admin` of its users."
        raise SkepError(message, code="not_implemented")
    if "virtualClusters" in acls:
        _set_virtual_clusters(admin, group, acls["virtualClusters"])
    if "storageConfigs" in acls:
        _set_storages(admin, group, acls["storageConfigs"])


def _set_virtual_clusters(admin: User, group: Group, names: Sequence[str]) -> None:
    wanted = {name: find_vc(admin, name) for name in dict.fromkeys(names)}
    held: dict[str, str] = dict(
        RoleGrant.objects.filter(group=group).values_list("vc__name", "role")
    )
    for name, vc in wanted.items():
        if held.get(name) not in Membership.SUBMITTERS:
            memberships.set_group(admin, vc, group.name, Role.MEMBER)
    for vc in VirtualCluster.objects.filter(name__in=held.keys() - wanted.keys()):
        memberships.remove_group(admin, vc, group.name)


def _set_storages(admin: User, group: Group, names: Sequence[str]) -> None:
    grants = StorageGrant.objects.filter(group=group).select_related("storage")
    held = {grant.storage.name: grant.storage for grant in grants}
    for name in dict.fromkeys(names):
        if name not in held:
            storage.grant_group(admin, storages.find(admin, name), group.name)
    for name in held.keys() - set(names):
        storage.revoke_group(admin, held[name], group.name)


class PaiGroupView(GroupBase):
    def get(self, request: Request, name: str) -> Response:
        found = _visible(request).filter(name=name).first()
        if found is None:
            raise NotFound(f"Group {name} is not found.")
        return Response(shown([found])[0])

    def delete(self, request: Request, name: str) -> Response:
        groups.delete(current_user.admin(request), groups.find(name))
        return done("group is removed successfully", 201)


class PaiGroupUsersView(GroupBase):
    def get(self, request: Request, name: str) -> Response:
        """List the users of a group. For admins."""
        current_user.admin(request)
        rows = groups.members(groups.find(name))
        found = rows.values_list("user__username", "user__is_superuser")[:MOST_MEMBERS]
        return Response([{"username": who, "clusterAdmin": admin} for who, admin in found])


class PaiGroupFieldView(GroupBase):
    """One field of a group. For admins."""

    BODIES: dict[str, type[Fields]] = {
        "description": DescriptionFields,
        "externalname": ExternalNameFields,
        "extension": ExtensionFields,
    }

    def put(self, request: Request, name: str, field: str) -> Response:
        admin = current_user.admin(request)
        _update(admin, name, validated(self.BODIES[field], request))
        return done(f"update group {name} successfully.", 201)


class AttributeFields(Fields):
    data = serializers.JSONField()  # type: ignore[assignment]


class PaiGroupExtensionView(GroupBase):
    """One value below `extension`, as `acls/virtualClusters`. For admins."""

    def put(self, request: Request, name: str, keys: str) -> Response:
        admin, data = current_user.admin(request), validated(AttributeFields, request)["data"]
        first, *others = keys.strip("/").split("/")
        if first != "acls" or others[1:]:
            groups.find(name)
            return done(f"Update group extension data successfully: {NOT_KEPT}.", 201)
        acls = Acls(data={others[0]: data} if others else data)
        acls.is_valid(raise_exception=True)
        _update(admin, name, {"extension": {"acls": acls.validated_data}})
        return done("Update group extension data successfully.", 201)
