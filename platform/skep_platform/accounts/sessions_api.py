"""REST: the own sessions, and ending them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import update_session_auth_hash
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from skep_platform.accounts import current_user, services, sessions
from skep_platform.accounts.mfa_api import OwnMfa


class SessionSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    address = serializers.CharField()
    user_agent = serializers.CharField()
    created_at = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField(help_text="To five minutes.")
    current = serializers.BooleanField(help_text="It is the one of this request.")


class MySessionsView(OwnMfa):
    before_mfa = False

    @extend_schema(
        operation_id="list_my_sessions", responses=SessionSerializer(many=True), tags=["me"]
    )
    def get(self, request: Request) -> Response:
        """Your sessions that go on, the one used last first; at most 100."""
        user = current_user.user(request)
        key = request._request.session.session_key
        rows = sessions.of_user(user)
        for row in rows:
            row.current = row.session_key == key  # type: ignore[attr-defined]
        return Response([SessionSerializer(row).data for row in rows])

    @extend_schema(operation_id="end_my_other_sessions", responses={204: None}, tags=["me"])
    def delete(self, request: Request) -> Response:
        """End all your sessions but this one. Tokens go on."""
        self.session(request)
        user = services.end_other_sessions(current_user.user(request))
        update_session_auth_hash(request._request, user)
        return Response(status=204)


class MySessionView(OwnMfa):
    before_mfa = False

    @extend_schema(operation_id="end_my_session", responses={204: None}, tags=["me"])
    def delete(self, request: Request, id: str) -> Response:
        """End one of your sessions."""
        self.session(request)
        sessions.end(current_user.user(request), id)
        return Response(status=204)
