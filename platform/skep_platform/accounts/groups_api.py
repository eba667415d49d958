"""REST: groups of users, for admins."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user, groups
from skep_platform.accounts.models import Group, GroupMember
from skep_platform.core.api import Body, IsAdmin, validated
from skep_platform.core.paging import page, paged

TAGS = ["groups"]
FOLLOWS = (
    "Group of the identity provider: its users join at login, and leave when it no longer names "
    "them."
)


class GroupSerializer(serializers.Serializer[Group]):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    external_name = serializers.CharField(allow_blank=True, help_text=FOLLOWS)
    members = serializers.IntegerField(source="members_count")
    created_at = serializers.DateTimeField()


class GroupMemberSerializer(serializers.Serializer[GroupMember]):
    username = serializers.CharField()
    external = serializers.BooleanField(help_text="Whether the identity provider added the user.")


class GroupBody(Body):
    name = serializers.CharField(max_length=63)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    external_name = serializers.CharField(
        max_length=255, allow_blank=True, required=False, help_text=FOLLOWS
    )


class GroupsView(APIView):
    permission_classes = (IsAdmin,)

    @paged("list_groups", GroupSerializer, TAGS)
    def get(self, request: Request) -> Response:
        return page(request, groups.all_groups(), _groups, "name")

    @extend_schema(
        operation_id="create_group",
        request=GroupBody,
        responses={201: GroupSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        group = groups.create(current_user.user(request), **validated(GroupBody, request))
        return _one(group.name, status=201)


class GroupView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="get_group", responses=GroupSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        return _one(name)

    @extend_schema(
        operation_id="update_group", request=GroupBody, responses=GroupSerializer, tags=TAGS
    )
    def patch(self, request: Request, name: str) -> Response:
        changes = validated(GroupBody, request, partial=True)
        group = groups.update(current_user.user(request), groups.find(name), **changes)
        return _one(group.name)

    @extend_schema(operation_id="delete_group", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Delete a group. Jobs of users who lose their role in a virtual cluster by that stop."""
        groups.delete(current_user.user(request), groups.find(name))
        return Response(status=204)


class GroupMembersView(APIView):
    permission_classes = (IsAdmin,)

    @paged("list_group_members", GroupMemberSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        return page(request, groups.members(groups.find(name)), _members, "username")


class GroupMemberView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="add_group_member",
        request=None,
        responses=GroupMemberSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, name: str, username: str) -> Response:
        """Add a user. One whom the identity provider added now stays for good."""
        groups.add_members(current_user.user(request), groups.find(name), [username])
        return Response({"username": username, "external": False})

    @extend_schema(operation_id="remove_group_member", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str, username: str) -> Response:
        """Take a user out. The user's jobs stop where the user has no role any more."""
        groups.remove_member(current_user.user(request), groups.find(name), username)
        return Response(status=204)


def _one(name: str, status: int = 200) -> Response:
    return Response(GroupSerializer(groups.find(name)).data, status=status)


def _groups(rows: list[Group]) -> list[Any]:
    return [GroupSerializer(row).data for row in rows]


def _members(rows: list[GroupMember]) -> list[Any]:
    return [GroupMemberSerializer(row).data for row in rows]
