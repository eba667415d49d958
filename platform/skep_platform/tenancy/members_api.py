"""REST: who belongs to a virtual cluster, by user and by group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import Body, IsAdmin, validated
from skep_platform.core.paging import page, paged
from skep_platform.tenancy import memberships, queries, user_import
from skep_platform.tenancy.api import TAGS, vc_admin
from skep_platform.tenancy.models import Membership, Role, RoleGrant, VirtualCluster

NO_ADMIN_LEFT = "Also where no VC admin would be left."
CONFIRM = [OpenApiParameter("confirm", bool, description=NO_ADMIN_LEFT)]


class MemberSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    role = serializers.ChoiceField(Role.values, help_text="The highest of those that it has.")
    own_role = serializers.ChoiceField(
        Role.values, allow_null=True, help_text="The user's own role; null: only by groups."
    )
    groups = serializers.ListField(
        child=serializers.CharField(), help_text="Groups of the user that have a role here."
    )


class GroupRoleSerializer(serializers.Serializer[RoleGrant]):
    group = serializers.CharField(source="group.name")
    role = serializers.ChoiceField(Role.values)


class RoleField(serializers.ChoiceField):
    """A role to give. "manager", the former name of "admin", is still taken."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(Role.values, **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value(Role.ADMIN.value if data == "manager" else data)


class RoleBody(Body):
    role = RoleField(required=False, help_text="Default: member.")
    confirm = serializers.BooleanField(required=False, help_text=NO_ADMIN_LEFT)


class MembersView(APIView):
    @paged("list_members", MemberSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List the members, with where their roles come from."""
        vc = queries.find(request.user, name)
        return page(request, queries.members(vc), lambda rows: _members(vc, rows), "username")


class MemberView(APIView):
    @extend_schema(
        operation_id="set_member", request=RoleBody, responses=MemberSerializer, tags=TAGS
    )
    def put(self, request: Request, name: str, username: str) -> Response:
        """Adds the user, or changes its role. For VC admins and admins."""
        vc = queries.find(request.user, name)
        user, body = vc_admin(request, vc), validated(RoleBody, request)
        role = body.get("role", Role.MEMBER)
        memberships.set_member(user, vc, username, role, confirm=body.get("confirm", False))
        return Response(_members(vc, list(queries.members(vc).filter(user__username=username)))[0])

    @extend_schema(
        operation_id="remove_member", parameters=CONFIRM, responses={204: None}, tags=TAGS
    )
    def delete(self, request: Request, name: str, username: str) -> Response:
        """Remove a member, as a VC admin or an admin. The jobs of the member in this virtual
        cluster stop."""
        vc = queries.find(request.user, name)
        user = vc_admin(request, vc)
        memberships.remove_member(user, vc, username, confirm=_confirmed(request))
        return Response(status=204)


class ImportBody(Body):
    csv = serializers.CharField(
        max_length=user_import.MAX_CHARS,
        trim_whitespace=False,
        help_text="Columns username, email, groups (a;b) and virtual_clusters (vc:role;vc).",
    )
    dry_run = serializers.BooleanField(required=False, help_text="Only check.")

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and isinstance(text := data.get("csv"), str):
            # Spreadsheets begin a file with a byte order mark, which is refused elsewhere.
            data = {**data, "csv": text.removeprefix("\ufeff")}
        return super().to_internal_value(data)


class ImportedUserSerializer(serializers.Serializer[user_import.ImportedUser]):
    username = serializers.CharField()
    is_new = serializers.BooleanField()
    reset_url = serializers.CharField(
        allow_null=True, help_text="Where a new user sets a password, once and within a day."
    )


class ImportSerializer(serializers.Serializer[Any]):
    users = ImportedUserSerializer(many=True)


class UserImportView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="import_users", request=ImportBody, responses=ImportSerializer, tags=["users"]
    )
    def post(self, request: Request) -> Response:
        """Create the users of a CSV file, and add users to groups and virtual clusters: all of it,
        or nothing and an answer that names the bad rows."""
        body = validated(ImportBody, request)
        rows = user_import.import_users(
            current_user.user(request), body["csv"], dry_run=body.get("dry_run", False)
        )
        return Response({"users": [ImportedUserSerializer(row).data for row in rows]})


class GroupRolesView(APIView):
    @paged("list_group_roles", GroupRoleSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List the groups whose users have a role here."""
        vc = queries.find(request.user, name)
        return page(request, memberships.group_grants(vc), _grants, "group__name")


class GroupRoleView(APIView):
    @extend_schema(
        operation_id="set_group_role", request=RoleBody, responses=GroupRoleSerializer, tags=TAGS
    )
    def put(self, request: Request, name: str, group: str) -> Response:
        """Give all users of a group a role, or change it. For VC admins and admins."""
        vc = queries.find(request.user, name)
        user, body = vc_admin(request, vc), validated(RoleBody, request)
        role = body.get("role", Role.MEMBER)
        memberships.set_group(user, vc, group, role, confirm=body.get("confirm", False))
        return Response({"group": group, "role": role})

    @extend_schema(
        operation_id="remove_group_role", parameters=CONFIRM, responses={204: None}, tags=TAGS
    )
    def delete(self, request: Request, name: str, group: str) -> Response:
        """Take the role of a group away. Jobs of users who then have none here stop."""
        vc = queries.find(request.user, name)
        user = vc_admin(request, vc)
        memberships.remove_group(user, vc, group, confirm=_confirmed(request))
        return Response(status=204)


def _confirmed(request: Request) -> bool:
    return request.query_params.get("confirm", "") in ("1", "true")


def _members(vc: VirtualCluster, rows: list[Membership]) -> list[Any]:
    own, through = memberships.sources(vc, [row.user_id for row in rows])
    shown = [
        {
            "username": row.username,  # type: ignore[attr-defined]  # annotated
            "role": row.role,
            "own_role": own.get(row.user_id),
            "groups": through.get(row.user_id, []),
        }
        for row in rows
    ]
    return list(MemberSerializer(shown, many=True).data)


def _grants(grants: list[RoleGrant]) -> list[Any]:
    return [GroupRoleSerializer(grant).data for grant in grants]
