"""REST: sharing of a single job with users and groups."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.jobs import shares
from skep_platform.jobs.api import TAGS
from skep_platform.jobs.models import JobShare

Serializer = serializers.Serializer[Any]


class JobShareSerializer(Serializer):
    kind = serializers.ChoiceField(["user", "group"])
    name = serializers.CharField(help_text="Of the user or group.")
    created_at = serializers.DateTimeField()


class JobSharesSerializer(Serializer):
    shares = JobShareSerializer(many=True)


class SharesView(APIView):
    @extend_schema(operation_id="list_job_shares", responses=JobSharesSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        """List with whom a job is shared, at most 100. For its owner and admins."""
        found = shares.of_job(current_user.user(request), id)
        return Response({"shares": [_show(one) for one in found]})


class UserShareView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="share_job_with_user",
        request=None,
        responses=JobShareSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, id: UUID, username: str) -> Response:
        """Let a user read a job. For its owner and admins."""
        return Response(_show(shares.share(current_user.user(request), id, username=username)))

    @extend_schema(operation_id="unshare_job_with_user", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID, username: str) -> Response:
        """End the sharing of a job with a user. For its owner and admins."""
        shares.revoke(current_user.user(request), id, username=username)
        return Response(status=204)


class GroupShareView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="share_job_with_group",
        request=None,
        responses=JobShareSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, id: UUID, group: str) -> Response:
        """Let the users of a group read a job. For its owner and admins."""
        return Response(_show(shares.share(current_user.user(request), id, group=group)))

    @extend_schema(operation_id="unshare_job_with_group", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID, group: str) -> Response:
        """End the sharing of a job with a group. For its owner and admins."""
        shares.revoke(current_user.user(request), id, group=group)
        return Response(status=204)


def _show(share: JobShare) -> Any:
    name = share.group.name if share.group else share.user.username if share.user else ""
    kind = "group" if share.group else "user"
    row = {"kind": kind, "name": name, "created_at": share.created_at}
    return JobShareSerializer(row).data
