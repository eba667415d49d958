"""Announcements, the messages of administrators to all users: reads, writes and REST."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster.models import (
    Announcement,
    AnnouncementDismissal,
    AnnouncementSeverity,
)
from skep_platform.core.api import AdminWrites, Body, IsAdmin, validated
from skep_platform.core.errors import Conflict, NotFound
from skep_platform.core.events import record
from skep_platform.core.paging import page, paged

# They are shown on every page, so there cannot be many.
MOST_CURRENT = 20


def current(user: User) -> QuerySet[Announcement]:
    """Return the announcements that have not expired, newest first; `dismissed`: by this user."""
    unexpired = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
    own = AnnouncementDismissal.objects.filter(announcement=OuterRef("pk"), user=user)
    found = Announcement.objects.filter(unexpired).annotate(dismissed=Exists(own))
    return found.order_by("-id")


@transaction.atomic
def create(
    user: User, message: str, severity: str = "info", expires_at: datetime | None = None
) -> Announcement:
    """Create an announcement, and delete those that have expired.

    Raises Conflict `too_many_announcements` when MOST_CURRENT are current.
    """
    Announcement.objects.filter(expires_at__lte=Now()).delete()
    if Announcement.objects.count() >= MOST_CURRENT:
        text = f"There are {MOST_CURRENT} announcements already; delete one first."
        raise Conflict(text, code="too_many_announcements", limit=MOST_CURRENT)
    made = Announcement.objects.create(
        message=message, severity=severity, expires_at=expires_at, created_by=user
    )
    audit.record("announcement.create", "announcement", made.pk, after=_audited(made))
    record("announcement", made.pk, "announcement.created", message, notify=True)
    return made


@transaction.atomic
def delete(announcement_id: UUID) -> None:
    """Delete an announcement. Raises NotFound."""
    found = Announcement.objects.filter(pk=announcement_id).first()
    if found is None:
        raise NotFound(f"There is no announcement {announcement_id}.")
    audit.record("announcement.delete", "announcement", found.pk, before=_audited(found))
    found.delete()


@transaction.atomic
def dismiss(user: User, announcement_id: UUID) -> None:
    """Show an announcement to this user no longer; a second time changes nothing. Raises
    NotFound."""
    found = Announcement.objects.select_for_update().filter(pk=announcement_id).first()
    if found is None:
        raise NotFound(f"There is no announcement {announcement_id}.")
    AnnouncementDismissal.objects.get_or_create(announcement=found, user=user)


def _audited(announcement: Announcement) -> dict[str, Any]:
    names = ("message", "severity", "expires_at")
    return {name: getattr(announcement, name) for name in names}


TAGS = ["cluster"]


class AnnouncementSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    message = serializers.CharField()
    severity = serializers.ChoiceField(AnnouncementSeverity.values)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="Null: shown until it is deleted."
    )
    dismissed = serializers.BooleanField(required=False, help_text="You want to see it no longer.")


class AnnouncementBody(Body):
    message = serializers.CharField(max_length=500)
    severity = serializers.ChoiceField(AnnouncementSeverity.values, required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)

    def validate_expires_at(self, value: Any) -> Any:
        if value is not None and value <= timezone.now():
            raise serializers.ValidationError("This time is in the past.")
        return value


class AnnouncementsView(APIView):
    permission_classes = (AdminWrites,)

    @paged("list_announcements", AnnouncementSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List the announcements that have not expired, newest first."""
        return page(request, current(current_user.user(request)), _show, "id", descending=True)

    @extend_schema(
        operation_id="create_announcement",
        request=AnnouncementBody,
        responses={201: AnnouncementSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Show a message to all users. At most 20 can be current."""
        body = validated(AnnouncementBody, request)
        made = create(current_user.admin(request), **body)
        made.dismissed = False  # type: ignore[attr-defined]
        return Response(_show([made])[0], status=201)


class AnnouncementView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="delete_announcement", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Stop showing an announcement."""
        delete(id)
        return Response(status=204)


class DismissalView(APIView):
    @extend_schema(
        operation_id="dismiss_announcement", request=None, responses={204: None}, tags=TAGS
    )
    def put(self, request: Request, id: UUID) -> Response:
        """Hide an announcement from you; others go on seeing it."""
        dismiss(current_user.user(request), id)
        return Response(status=204)


def _show(rows: list[Announcement]) -> list[Any]:
    return list(AnnouncementSerializer(rows, many=True).data)
