"""REST: logging a program in by a browser (RFC 8628)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from skep_platform.accounts import current_user, device
from skep_platform.accounts.api import NewTokenSerializer, Public, TokenSerializer
from skep_platform.accounts.mfa_api import OwnMfa
from skep_platform.accounts.models import DeviceLogin, Scope
from skep_platform.core.api import Body, validated
from skep_platform.core.throttling import DeviceCodes, DeviceLogins, DevicePolls


class DeviceStart(Body):
    name = serializers.CharField(max_length=100, help_text="Of the token: the program and where.")
    scope = serializers.ChoiceField(Scope.values, required=False, help_text="Asked for; submit.")


class DeviceCodesSerializer(serializers.Serializer[Any]):
    device_code = serializers.CharField(help_text="For the program alone.")
    user_code = serializers.CharField(help_text="For its user to type.")
    verification_uri = serializers.CharField()
    verification_uri_complete = serializers.CharField()
    expires_in = serializers.IntegerField(help_text="Seconds.")
    interval = serializers.IntegerField(help_text="Seconds between two questions for the token.")


class DeviceToken(Body):
    device_code = serializers.CharField(max_length=200)


class DeviceLoginSerializer(serializers.Serializer[DeviceLogin]):
    name = serializers.CharField()
    scope = serializers.ChoiceField(Scope.values)
    address = serializers.CharField(help_text="From where the program asks.")
    user_agent = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class DeviceDecision(Body):
    code = serializers.CharField(max_length=20)
    allow = serializers.BooleanField()
    scope = serializers.ChoiceField(Scope.values, required=False)
    expires_in_s = serializers.IntegerField(
        min_value=1, required=False, allow_null=True, help_text="Default: SKEP_TOKEN_DAYS."
    )


class DeviceStartView(Public):
    throttle_classes = (DeviceLogins,)

    @extend_schema(
        operation_id="start_device_login",
        request=DeviceStart,
        responses=DeviceCodesSerializer,
        auth=[],
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Begin to log a program in: its user opens the address, compares the code and allows it.
        Codes work once, for ten minutes."""
        body = validated(DeviceStart, request)
        kept, code = device.start(body["name"], body.get("scope", Scope.SUBMIT))
        return Response(
            {
                "device_code": kept,
                "user_code": code,
                "verification_uri": device.page_address(),
                "verification_uri_complete": device.page_address(code),
                "expires_in": device.LIFETIME_S,
                "interval": device.INTERVAL_S,
            }
        )


class DeviceTokenView(Public):
    throttle_classes = (DevicePolls,)

    @extend_schema(
        operation_id="create_token_by_device",
        request=DeviceToken,
        responses={201: NewTokenSerializer},
        auth=[],
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Fetch the token of a login that was allowed; `authorization_pending` before that."""
        row, secret = device.fetch(validated(DeviceToken, request)["device_code"])
        return Response({**TokenSerializer(row).data, "token": secret}, status=201)


class MyDeviceView(OwnMfa):
    before_mfa = False
    throttle_classes = (DeviceCodes,)

    @extend_schema(
        operation_id="get_device_login",
        parameters=[OpenApiParameter("code", str, required=True)],
        responses=DeviceLoginSerializer,
        tags=["me"],
    )
    def get(self, request: Request) -> Response:
        """Who asks to be logged in by this code, and from where."""
        self.session(request)
        row = device.find(request.query_params.get("code", "")[:20])
        return Response(DeviceLoginSerializer(row).data)

    @extend_schema(
        operation_id="decide_device_login",
        request=DeviceDecision,
        responses={204: None},
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Allow a program to act as you with a token of its own, or deny it."""
        self.session(request)
        body = validated(DeviceDecision, request)
        scope = body.get("scope", Scope.SUBMIT)
        user = current_user.user(request)
        device.decide(user, body["code"], body["allow"], scope, body.get("expires_in_s"))
        return Response(status=204)
