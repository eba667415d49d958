"""REST: a user's notifications, what the user wants to be notified of, and what was sent."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import parsers, serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import User
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.core.parsers import JSONParser
from skep_platform.core.user_events import USER_EVENTS, Channel
from skep_platform.notifications import mail, preferences, queries, services, texts
from skep_platform.notifications.models import Delivery, DeliveryState, Notification

TAGS = ["notifications"]
CHANNELS = [c.value for c in Channel]
SENT = [Channel.EMAIL.value, Channel.WEBHOOK.value]
MAX_IDS = 500


class NotificationItemSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(allow_blank=True)
    message = serializers.CharField()
    log_line = serializers.CharField(allow_blank=True, help_text="That the diagnosis names.")
    url = serializers.CharField(help_text="Path of the page about it.")
    at = serializers.DateTimeField()
    virtual_cluster = serializers.CharField(allow_blank=True)


class NotificationSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    event = serializers.CharField()
    title = serializers.CharField()
    count = serializers.IntegerField(help_text="How many events it stands for.")
    items = NotificationItemSerializer(many=True, help_text="The first 50 of them.")
    read = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class UnreadNotificationsSerializer(serializers.Serializer[Any]):
    unread = serializers.IntegerField(help_text="At most 100.")


class NotificationsReadBody(Body):
    ids = serializers.ListField(
        child=serializers.UUIDField(),
        max_length=MAX_IDS,
        required=False,
        help_text="Of notifications; without it all of yours.",
    )


class NotificationChange(Body):
    read = serializers.BooleanField()


class NotificationChannelSerializer(serializers.Serializer[Any]):
    name = serializers.ChoiceField(CHANNELS)
    problem = serializers.CharField(
        allow_blank=True, help_text="Why nothing can reach you by it; empty when it can."
    )


class NotificationEventSerializer(serializers.Serializer[Any]):
    event = serializers.CharField()
    description = serializers.CharField()
    channels = serializers.ListField(
        child=serializers.ChoiceField(CHANNELS), help_text="By which you are notified."
    )
    offered = serializers.ListField(
        child=serializers.ChoiceField(CHANNELS), help_text="That can be switched on and off."
    )


class NotificationPreferencesSerializer(serializers.Serializer[Any]):
    email = serializers.CharField(allow_blank=True)
    channels = NotificationChannelSerializer(many=True)
    events = NotificationEventSerializer(many=True)


class NotificationPreferencesChange(Body):
    events = serializers.DictField(
        child=serializers.DictField(child=serializers.BooleanField()),
        help_text='{event: {channel: on}}, such as {"job.failed": {"email": false}}.',
    )


class NotificationTestBody(Body):
    channel = serializers.ChoiceField(SENT)
    webhook = serializers.UUIDField(required=False, help_text="Of the channel webhook.")


class NotificationDeliverySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    channel = serializers.ChoiceField(SENT)
    webhook = serializers.CharField(allow_blank=True, help_text="Its name.")
    event = serializers.CharField()
    title = serializers.CharField()
    state = serializers.ChoiceField(DeliveryState.values)
    attempts = serializers.IntegerField()
    error = serializers.CharField(allow_blank=True, help_text="Of the last attempt.")
    due_at = serializers.DateTimeField()
    sent_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class UnsubscribeBody(Body):
    token = serializers.CharField(max_length=500)


class UnsubscribedSerializer(serializers.Serializer[Any]):
    event = serializers.CharField()
    description = serializers.CharField()


class NotificationsView(APIView):
    @paged(
        "list_notifications",
        NotificationSerializer,
        TAGS,
        OpenApiParameter("unread", bool, description="Only those that were not read."),
    )
    def get(self, request: Request) -> Response:
        """List your notifications, newest first. They are kept for 30 days."""
        unread = request.query_params.get("unread", "").lower() in ("1", "true")
        rows = queries.of(current_user.user(request), unread=unread)
        return page(request, rows, _show, "id", descending=True)


class UnreadView(APIView):
    @extend_schema(operation_id="count_unread", responses=UnreadNotificationsSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """Count the notifications that you have not read."""
        return Response({"unread": queries.unread(current_user.user(request))})


class ReadView(APIView):
    @extend_schema(
        operation_id="mark_notifications_read",
        request=NotificationsReadBody,
        responses=UnreadNotificationsSerializer,
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Mark some or all of your notifications as read."""
        user = current_user.user(request)
        services.mark_read(user, validated(NotificationsReadBody, request).get("ids"))
        return Response({"unread": queries.unread(user)})


class NotificationView(APIView):
    @extend_schema(
        operation_id="update_notification",
        request=NotificationChange,
        responses=UnreadNotificationsSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request, id: UUID) -> Response:
        """Mark a notification as read or as unread."""
        user = current_user.user(request)
        services.mark_read(user, [id], read=validated(NotificationChange, request)["read"])
        return Response({"unread": queries.unread(user)})

    @extend_schema(operation_id="delete_notification", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Delete a notification."""
        services.delete(current_user.user(request), id)
        return Response(status=204)


class PreferencesView(APIView):
    @extend_schema(
        operation_id="get_notification_preferences",
        responses=NotificationPreferencesSerializer,
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Show what you are notified of, and by which channels."""
        return _preferences(current_user.user(request))

    @extend_schema(
        operation_id="update_notification_preferences",
        request=NotificationPreferencesChange,
        responses=NotificationPreferencesSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request) -> Response:
        """Turn channels of events on and off. What you do not name stays as it is."""
        user = current_user.user(request)
        preferences.update(user, validated(NotificationPreferencesChange, request)["events"])
        return _preferences(user)


class TestView(APIView):
    @extend_schema(
        operation_id="test_notification",
        request=NotificationTestBody,
        responses={202: NotificationDeliverySerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Send yourself a test. Look at the delivery after some seconds for what became of it."""
        body = validated(NotificationTestBody, request)
        user = current_user.user(request)
        made = services.send_test(user, body["channel"], body.get("webhook"))
        return Response(_show_deliveries([made])[0], status=202)


class DeliveriesView(APIView):
    @paged(
        "list_notification_deliveries",
        NotificationDeliverySerializer,
        TAGS,
        OpenApiParameter("webhook", str, description="Only those of this webhook, by its id."),
    )
    def get(self, request: Request) -> Response:
        """List the e-mails and webhook messages for you, newest first."""
        user = current_user.user(request)
        rows = queries.deliveries_of(user)
        if asked := request.query_params.get("webhook", ""):
            webhook = serializers.UUIDField().run_validation(asked)
            rows = rows.filter(webhook=queries.webhook(user, webhook))
        return page(request, rows, _show_deliveries, "id", descending=True)


class DeliveryView(APIView):
    @extend_schema(
        operation_id="get_notification_delivery",
        responses=NotificationDeliverySerializer,
        tags=TAGS,
    )
    def get(self, request: Request, id: UUID) -> Response:
        """Show what became of an e-mail or a webhook message."""
        found = queries.delivery(current_user.user(request), id)
        return Response(_show_deliveries([found])[0])


class UnsubscribeView(APIView):
    # The token is the right to do this, and to do nothing else: a session is not looked at.
    authentication_classes = ()
    permission_classes = (AllowAny,)
    parser_classes = (JSONParser, parsers.FormParser, parsers.MultiPartParser)

    @extend_schema(
        operation_id="unsubscribe",
        request=UnsubscribeBody,
        responses=UnsubscribedSerializer,
        tags=TAGS,
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """End e-mails of one kind, by the token of a link in one of them."""
        # A mail program sends its own form and leaves the token in the address (RFC 8058).
        token = request.query_params.get("token", "")[:500]
        token = token or validated(UnsubscribeBody, request)["token"]
        return Response(UnsubscribedSerializer(preferences.unsubscribe(token)).data)


def _preferences(user: User) -> Response:
    chosen = preferences.of(user)
    body = {
        "email": user.email,
        "channels": [{"name": c, "problem": _problem(user, c)} for c in Channel],
        "events": [
            {
                "event": one.name,
                "description": one.description,
                "channels": chosen[one.name],
                "offered": [c for c in one.channels if c not in one.always],
            }
            for one in USER_EVENTS
        ],
    }
    return Response(NotificationPreferencesSerializer(body).data)


def _problem(user: User, channel: Channel) -> str:
    if channel == Channel.EMAIL:
        missing = "Your account has no e-mail address: an administrator can set it."
        return mail.problem() or ("" if user.email else missing)
    if channel == Channel.WEBHOOK and not queries.webhooks_of(user).filter(enabled=True).exists():
        return "You have no webhook that is enabled."
    return ""


def _show(rows: list[Notification]) -> list[Any]:
    shown = [
        {
            "id": row.pk,
            "event": row.event,
            "title": texts.title(row.event, row.count, row.items),
            "count": row.count,
            "items": row.items,
            "read": row.read_at is not None,
            "created_at": row.created_at,
            "updated_at": row.updated_at,
        }
        for row in rows
    ]
    return list(NotificationSerializer(shown, many=True).data)


def _show_deliveries(rows: list[Delivery]) -> list[Any]:
    names = ("channel", "event", "state", "attempts", "error", "due_at", "sent_at", "created_at")
    shown = [
        {name: getattr(row, name) for name in names}
        | {
            "id": row.pk,
            "webhook": row.webhook.name if row.webhook else "",
            "title": texts.title(row.event, row.count, row.items),
        }
        for row in rows
    ]
    return list(NotificationDeliverySerializer(shown, many=True).data)
