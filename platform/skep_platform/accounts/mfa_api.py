"""REST: a user's own second factor, and its reset by an admin."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import update_session_auth_hash
from django.contrib.sessions.backends.base import SessionBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import confirmation, current_user, mfa, security_keys, services
from skep_platform.accounts.api import CodeField, KeyAnswer, KeyChallenge, PasswordField
from skep_platform.accounts.models import ApiToken
from skep_platform.core.api import Body, IsAdmin, validated
from skep_platform.core.errors import Forbidden


class SecurityKeySerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    passkey = serializers.BooleanField(help_text="It also logs in without a password.")
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)


class MfaSerializer(serializers.Serializer[Any]):
    app = serializers.BooleanField(required=False, help_text="An authenticator app is set up.")
    keys = SecurityKeySerializer(many=True, required=False, help_text="Security keys, at most 10.")
    keys_supported = serializers.BooleanField(
        required=False, help_text="Browsers make keys for the address of this server."
    )
    by_policy = serializers.BooleanField(help_text="SKEP_REQUIRE_MFA names the user.")
    enabled = serializers.BooleanField()
    enabled_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    recovery_codes_left = serializers.IntegerField()


class MfaKeySerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="For typing into an authenticator app.")
    url = serializers.CharField(help_text="The same as otpauth://, which the QR code holds.")
    qr_path = serializers.CharField(help_text="Path of an SVG with the view box 0 0 100 100.")


class RecoveryCodesSerializer(serializers.Serializer[Any]):
    recovery_codes = serializers.ListField(
        child=serializers.CharField(), help_text="Shown only once; each works once."
    )


class MfaStart(Body):
    password = PasswordField()


class MfaCode(Body):
    code = CodeField()


class KeyStart(Body):
    passkey = serializers.BooleanField(
        required=False, help_text="Make a passkey, which also logs in without a password."
    )


class KeyChange(Body):
    name = serializers.CharField(max_length=50)


class NewKey(KeyAnswer):
    name = serializers.CharField(max_length=50)


class MfaDisable(Body):
    password = PasswordField(required=False)
    code = CodeField(required=False, help_text="In place of the password.")


class OwnMfa(APIView):
    """The second factor of the caller. A token cannot change it: a stolen one would lock its user
    out."""

    before_mfa = True

    def session(self, request: Request) -> SessionBase:
        """Raises Forbidden `session_required`."""
        if isinstance(request.auth, ApiToken):
            message = "This is done on the settings page: a token cannot do it."
            raise Forbidden(message, code="session_required")
        return request._request.session


class MfaView(APIView):
    before_mfa = True

    @extend_schema(operation_id="get_my_mfa", responses=MfaSerializer, tags=["me"])
    def get(self, request: Request) -> Response:
        user = current_user.user(request)
        supported = security_keys.is_supported(request)
        keys = {"keys": security_keys.of_user(user), "keys_supported": supported}
        return Response(MfaSerializer(mfa.status(user) | keys).data)


class MfaStartView(OwnMfa):
    @extend_schema(
        operation_id="start_my_mfa", request=MfaStart, responses=MfaKeySerializer, tags=["me"]
    )
    def post(self, request: Request) -> Response:
        """Make a key for an authenticator app. Nothing changes until a code of it is confirmed."""
        session, user = self.session(request), current_user.user(request)
        services.confirm_password(request, user, validated(MfaStart, request)["password"])
        return Response(MfaKeySerializer(mfa.start(user, session)).data)


class MfaConfirmView(OwnMfa):
    @extend_schema(
        operation_id="confirm_my_mfa",
        request=MfaCode,
        responses=RecoveryCodesSerializer,
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Switch MFA on by a code of the new key; all other sessions end."""
        session, user = self.session(request), current_user.user(request)
        codes = services.enable_mfa(user, session, validated(MfaCode, request)["code"])
        update_session_auth_hash(request._request, user)
        return Response({"recovery_codes": codes})


class RecoveryCodesView(OwnMfa):
    @extend_schema(
        operation_id="renew_my_recovery_codes",
        request=MfaCode,
        responses=RecoveryCodesSerializer,
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Replace all recovery codes."""
        self.session(request)
        code = validated(MfaCode, request)["code"]
        codes = mfa.renew_recovery_codes(current_user.user(request), code)
        return Response({"recovery_codes": codes})


class MfaDisableView(OwnMfa):
    @extend_schema(
        operation_id="disable_my_mfa", request=MfaDisable, responses={204: None}, tags=["me"]
    )
    def post(self, request: Request) -> Response:
        """Switch MFA off by the password or a code; all other sessions end."""
        session, user = self.session(request), current_user.user(request)
        services.disable_mfa(request, user, session, **validated(MfaDisable, request))
        update_session_auth_hash(request._request, user)
        return Response(status=204)


class ConfirmView(OwnMfa):
    @extend_schema(operation_id="confirm_me", request=MfaStart, responses={204: None}, tags=["me"])
    def post(self, request: Request) -> Response:
        """Give the password again, which changes of how one logs in need (`confirmation_required`).
        It holds for ten minutes, as a login does."""
        session, user = self.session(request), current_user.user(request)
        services.confirm_password(request, user, validated(MfaStart, request)["password"])
        confirmation.note(session)
        return Response(status=204)


class KeysView(OwnMfa):
    @extend_schema(
        operation_id="create_my_key",
        request=NewKey,
        responses={201: RecoveryCodesSerializer},
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Keep a security key that the browser made; all other sessions end. The answer has
        recovery codes with the first key only."""
        user = current_user.user(request)
        session, body = confirmation.required(request, user), validated(NewKey, request)
        codes = services.add_key(request, user, session, body["name"], body)
        update_session_auth_hash(request._request, user)
        return Response({"recovery_codes": codes}, status=201)


class KeyStartView(OwnMfa):
    @extend_schema(
        operation_id="start_my_key", request=KeyStart, responses=KeyChallenge, tags=["me"]
    )
    def post(self, request: Request) -> Response:
        """Return what the browser makes a key from. Needs a confirmation of the last minutes."""
        user = current_user.user(request)
        confirmation.required(request, user)
        passkey = validated(KeyStart, request).get("passkey", False)
        return Response(security_keys.start_registration(request, user, passkey))


class KeyView(OwnMfa):
    @extend_schema(
        operation_id="update_my_key", request=KeyChange, responses={204: None}, tags=["me"]
    )
    def patch(self, request: Request, id: int) -> Response:
        self.session(request)
        name = validated(KeyChange, request)["name"]
        security_keys.rename(current_user.user(request), id, name)
        return Response(status=204)

    @extend_schema(operation_id="delete_my_key", responses={204: None}, tags=["me"])
    def delete(self, request: Request, id: int) -> Response:
        """Remove a key. With the last one, where there is no app, MFA is off."""
        user = current_user.user(request)
        session = confirmation.required(request, user)
        security_keys.remove(user, id)
        if not mfa.is_enabled(user):
            session.pop(mfa.VERIFIED, None)  # where MFA is required, it is set up again first
        return Response(status=204)


class UserMfaView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="reset_user_mfa", responses={204: None}, tags=["users"])
    def delete(self, request: Request, username: str) -> Response:
        """Switch MFA off for a user who lost the app and the recovery codes."""
        services.reset_mfa(username)
        return Response(status=204)
