"""REST: the caller's public ssh keys."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user, ssh_keys
from skep_platform.accounts.models import SshKey
from skep_platform.core.api import Body, validated

TAGS = ["me"]


class SshKeySerializer(serializers.Serializer[SshKey]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    public_key = serializers.CharField(help_text="Type and key, without a comment.")
    fingerprint = serializers.CharField(help_text="As `ssh-keygen -l` shows it.")
    created_at = serializers.DateTimeField()


class SshKeysSerializer(serializers.Serializer[Any]):
    keys = SshKeySerializer(many=True)


class SshKeyBody(Body):
    name = serializers.CharField(max_length=SshKey.MAX_NAME)
    public_key = serializers.CharField(
        max_length=ssh_keys.MAX_TEXT, help_text="The line of a file .pub."
    )


class SshKeysView(APIView):
    @extend_schema(operation_id="list_my_ssh_keys", responses=SshKeysSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """List your public ssh keys by name, at most 20."""
        found = ssh_keys.of(current_user.user(request)).order_by("name")
        return Response(SshKeysSerializer({"keys": found}).data)

    @extend_schema(
        operation_id="add_my_ssh_key",
        request=SshKeyBody,
        responses={201: SshKeySerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Add a public ssh key: with it you log in to tasks whose ssh plugin asks for your keys."""
        asked = validated(SshKeyBody, request)
        made = ssh_keys.add(current_user.user(request), asked["name"], asked["public_key"])
        return Response(SshKeySerializer(made).data, status=201)


class SshKeyView(APIView):
    @extend_schema(operation_id="remove_my_ssh_key", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Remove one of your public ssh keys. Tasks that run keep it."""
        ssh_keys.remove(current_user.user(request), id)
        return Response(status=204)
