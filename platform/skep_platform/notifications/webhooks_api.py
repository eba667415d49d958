"""REST: the webhooks of a user."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.notifications import queries, webhooks
from skep_platform.notifications.models import Webhook, WebhookFormat

TAGS = ["notifications"]
URL = "An address of https or http that is public; see the documentation."
FORMAT = "skep: all fields, as documented; slack: a text, as Slack and others take it."


class WebhookSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    origin = serializers.CharField(help_text="Its address without the path, which may be secret.")
    format = serializers.ChoiceField(WebhookFormat.values)
    enabled = serializers.BooleanField()
    disabled_reason = serializers.CharField(
        allow_blank=True, help_text="Why the platform disabled it."
    )
    failures = serializers.IntegerField(help_text="Failed requests in a row.")
    created_at = serializers.DateTimeField()


class NewWebhookSerializer(WebhookSerializer):
    secret = serializers.CharField(help_text="Checks signatures. It is shown this once.")


class WebhookSecretSerializer(serializers.Serializer[Any]):
    secret = serializers.CharField(help_text="Checks signatures. It is shown this once.")


class WebhookBody(Body):
    name = serializers.CharField(max_length=63)
    url = serializers.CharField(max_length=1000, help_text=URL)
    format = serializers.ChoiceField(WebhookFormat.values, required=False, help_text=FORMAT)


class WebhookChange(Body):
    name = serializers.CharField(max_length=63, required=False)
    url = serializers.CharField(max_length=1000, required=False, help_text=URL)
    format = serializers.ChoiceField(WebhookFormat.values, required=False, help_text=FORMAT)
    enabled = serializers.BooleanField(required=False)


class WebhooksView(APIView):
    @paged("list_webhooks", WebhookSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List your webhooks."""
        return page(request, queries.webhooks_of(current_user.user(request)), _show, "name")

    @extend_schema(
        operation_id="create_webhook",
        request=WebhookBody,
        responses={201: NewWebhookSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Create a webhook. The answer has the secret that its requests are signed with."""
        user = current_user.user(request)
        made, secret = webhooks.create(user, **validated(WebhookBody, request))
        return Response(_show([made])[0] | {"secret": secret}, status=201)


class WebhookView(APIView):
    @extend_schema(operation_id="get_webhook", responses=WebhookSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        return Response(_show([queries.webhook(current_user.user(request), id)])[0])

    @extend_schema(
        operation_id="update_webhook",
        request=WebhookChange,
        responses=WebhookSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request, id: UUID) -> Response:
        """Change a webhook, or enable one that was disabled."""
        found = queries.webhook(current_user.user(request), id)
        changes = validated(WebhookChange, request, partial=True)
        return Response(_show([webhooks.update(found, **changes)])[0])

    @extend_schema(operation_id="delete_webhook", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Delete a webhook, with what was not sent to it yet."""
        webhooks.delete(queries.webhook(current_user.user(request), id))
        return Response(status=204)


class SecretView(APIView):
    @extend_schema(
        operation_id="create_webhook_secret",
        request=None,
        responses={201: WebhookSecretSerializer},
        tags=TAGS,
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Replace the secret of a webhook; the old one ends at once."""
        found = queries.webhook(current_user.user(request), id)
        return Response({"secret": webhooks.new_secret(found)}, status=201)


def _show(rows: list[Webhook]) -> list[Any]:
    return list(WebhookSerializer(rows, many=True).data)
