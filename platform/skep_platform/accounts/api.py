"""REST: logging in, API tokens, oneself, and users for the admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import login, logout, update_session_auth_hash
from django.middleware.csrf import get_token
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import confirmation, current_user, mfa, queries, security_keys, services
from skep_platform.accounts.models import ApiToken, Scope, User
from skep_platform.core.api import Body, IsAdmin, validated
from skep_platform.core.errors import Forbidden
from skep_platform.core.paging import page, paged
from skep_platform.core.throttling import CountsGuesses


class PasswordField(serializers.CharField):
    def __init__(self, **kwargs: Any) -> None:
        style = {"input_type": "password"}
        super().__init__(max_length=1024, trim_whitespace=False, style=style, **kwargs)


class MembershipSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    role = serializers.ChoiceField(["viewer", "member", "admin"])


class MeSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField(allow_blank=True)
    email_confirmed = serializers.BooleanField(
        required=False, help_text="The user has shown to read it; it recovers the account."
    )
    is_admin = serializers.BooleanField()
    mfa_setup_required = serializers.BooleanField(
        required=False,
        help_text="Until MFA is set up, all other requests of this session are refused.",
    )
    virtual_clusters = MembershipSerializer(many=True)
    admins = serializers.ListField(
        child=serializers.CharField(),
        help_text="Whom to ask for a virtual cluster; empty for members of one.",
    )


class UserSerializer(serializers.Serializer[User]):
    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField(allow_blank=True)
    is_admin = serializers.BooleanField(source="is_superuser")
    is_active = serializers.BooleanField()
    mfa = serializers.BooleanField(default=False, help_text="Logging in by password needs a code.")
    created_at = serializers.DateTimeField(source="date_joined")
    last_login_at = serializers.DateTimeField(source="last_login", allow_null=True)


class TokenSerializer(serializers.Serializer[ApiToken]):
    id = serializers.UUIDField(source="public_id")
    name = serializers.CharField()
    last4 = serializers.CharField()
    scope = serializers.ChoiceField(Scope.values)
    created_at = serializers.DateTimeField(source="created")
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="To the hour.")
    expires_at = serializers.DateTimeField(source="expiry", allow_null=True)


class NewTokenSerializer(TokenSerializer):
    token = serializers.CharField(help_text="Shown only once.")


class KeyChallenge(serializers.Serializer[Any]):
    options = serializers.DictField(help_text="For `navigator.credentials`, as JSON.")
    state = serializers.CharField(help_text="To be sent back with the answer.")


class CsrfSerializer(serializers.Serializer[Any]):
    csrf_token = serializers.CharField()


class CodeField(serializers.CharField):
    """A code of an authenticator app, or a recovery code."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=40, **kwargs)


class Credentials(Body):
    username = serializers.CharField(max_length=150)
    password = PasswordField()
    code = CodeField(
        required=False,
        allow_blank=True,
        help_text="Where MFA is set up: without it the answer is `mfa_required`.",
    )


class KeyAnswer(Body):
    """What a browser's `navigator.credentials` gave for a challenge, and the challenge's seal."""

    credential = serializers.JSONField(help_text="PublicKeyCredential.toJSON()")
    state = serializers.CharField(max_length=4000)


class SessionLogin(Credentials):
    key = KeyAnswer(
        required=False, help_text="In place of a code: `key` of `mfa_required`, signed."
    )


class TokenBody(Body):
    name = serializers.CharField(max_length=100, required=False)
    expires_in_s = serializers.IntegerField(
        min_value=1, required=False, allow_null=True, help_text="Default: SKEP_TOKEN_DAYS."
    )
    scope = serializers.ChoiceField(
        Scope.values,
        required=False,
        help_text="read: only reads; submit: also works with jobs and files; admin (the default): "
        "all that its user may.",
    )


class TokenLogin(Credentials, TokenBody):
    pass


class PasswordChange(Body):
    current = PasswordField()
    new = PasswordField()
    keep_tokens = serializers.BooleanField(required=False, help_text="Default: they end.")


class PasswordReset(Body):
    username = serializers.CharField(max_length=150)
    token = serializers.CharField(max_length=200)
    new = PasswordField()


class ResetLinkSerializer(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="Shown only once; whoever has it can set the password.")
    expires_at = serializers.DateTimeField()


class UserBody(Body):
    username = serializers.CharField(max_length=150)
    password = PasswordField()
    email = serializers.EmailField(allow_blank=True, required=False, max_length=254)
    is_admin = serializers.BooleanField(required=False)


class UserChange(Body):
    email = serializers.EmailField(allow_blank=True, required=False, max_length=254)
    password = PasswordField(required=False)
    is_admin = serializers.BooleanField(required=False)
    is_active = serializers.BooleanField(required=False)


class Public(APIView):
    """No credential is looked at, so a stale one cannot stand in the way of a new one."""

    authentication_classes = ()
    permission_classes = (AllowAny,)


class CsrfView(Public):
    @extend_schema(operation_id="get_csrf", responses=CsrfSerializer, auth=[], tags=["auth"])
    def get(self, request: Request) -> Response:
        """Sets the cookie `skep_csrf`; writes of a session send its value as `X-CSRFToken`."""
        return Response({"csrf_token": get_token(request._request)})


@method_decorator(csrf_protect, name="dispatch")
class LoginView(Public):
    @extend_schema(
        operation_id="login", request=SessionLogin, responses=MeSerializer, auth=[], tags=["auth"]
    )
    def post(self, request: Request) -> Response:
        """Starts a session (cookie `skep_session`)."""
        user, second = services.check_login(request, **validated(SessionLogin, request))
        return Response(begin_session(request, user, second, user.login_method))


class PasskeyChallengeView(Public):
    @extend_schema(
        operation_id="start_passkey_login",
        request=None,
        responses=KeyChallenge,
        auth=[],
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Return what a passkey signs to log in without a password."""
        return Response(security_keys.challenge(request))


@method_decorator(csrf_protect, name="dispatch")
class PasskeyLoginView(Public):
    @extend_schema(
        operation_id="login_by_passkey",
        request=KeyAnswer,
        responses=MeSerializer,
        auth=[],
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Start a session by a passkey, which is the second factor as well."""
        user = services.log_in_by_passkey(request, **validated(KeyAnswer, request))
        return Response(begin_session(request, user, True, "passkey"))


class PasswordResetView(CountsGuesses, Public):
    @extend_schema(
        operation_id="reset_password",
        request=PasswordReset,
        responses={204: None},
        auth=[],
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Sets a new password by a link that an admin made or an e-mail brought. Works once; ends
        all sessions and tokens."""
        body = validated(PasswordReset, request)
        services.reset_password(request, body["username"], body["token"], body["new"])
        return Response(status=204)


class LogoutView(APIView):
    before_mfa = True
    token_scope = Scope.READ

    @extend_schema(operation_id="logout", request=None, responses={204: None}, tags=["auth"])
    def post(self, request: Request) -> Response:
        """Ends the session, or deletes the token that the request was made with."""
        services.note_logout(current_user.user(request))
        if isinstance(request.auth, ApiToken):
            services.revoke_token(request.auth)
        logout(request._request)
        return Response(status=204)


class TokenLoginView(Public):
    @extend_schema(
        operation_id="create_token_by_password",
        request=TokenLogin,
        responses={201: NewTokenSerializer},
        auth=[],
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Exchange a name and password for a token: how a command line logs in."""
        body = validated(TokenLogin, request)
        user, second = services.check_login(
            request, body["username"], body["password"], body.get("code", "")
        )
        if mfa.is_required(user) and not second:
            message = "Log in on the web page first, and set up MFA there."
            raise Forbidden(message, code="mfa_setup_required")
        services.note_login(user)
        return _new_token(user, body)


class TokensView(APIView):
    @extend_schema(operation_id="list_tokens", responses=TokenSerializer(many=True), tags=["auth"])
    def get(self, request: Request) -> Response:
        """Your own tokens, newest first; there are at most 50."""
        tokens = queries.tokens_of(current_user.user(request))
        return Response([TokenSerializer(token).data for token in tokens])

    @extend_schema(
        operation_id="create_token",
        request=TokenBody,
        responses={201: NewTokenSerializer},
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Only with a session: a token makes no tokens, which might outlive it."""
        if isinstance(request.auth, ApiToken):
            message = "A token cannot make tokens: log in with your password (skep login)."
            raise Forbidden(message, code="token_by_token")
        return _new_token(current_user.user(request), validated(TokenBody, request))


class TokenView(APIView):
    @extend_schema(operation_id="delete_token", responses={204: None}, tags=["auth"])
    def delete(self, request: Request, id: str) -> Response:
        services.delete_token(current_user.user(request), id)
        return Response(status=204)


class MeView(APIView):
    before_mfa = True

    @extend_schema(operation_id="get_me", responses=MeSerializer, tags=["me"])
    def get(self, request: Request) -> Response:
        return Response(_me(current_user.user(request), request))


class MyPasswordView(APIView):
    before_mfa = True

    @extend_schema(
        operation_id="change_my_password",
        request=PasswordChange,
        responses={204: None},
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Ends all your other sessions, and all your tokens unless they are kept."""
        body = validated(PasswordChange, request)
        user = services.change_own_password(
            request,
            current_user.user(request),
            body["current"],
            body["new"],
            keep_tokens=body.get("keep_tokens", False),
        )
        update_session_auth_hash(request._request, user)
        return Response(status=204)


class UsersView(APIView):
    permission_classes = (IsAdmin,)

    @paged("list_users", UserSerializer, ["users"])
    def get(self, request: Request) -> Response:
        return page(request, queries.users(), _users, "username")

    @extend_schema(
        operation_id="create_user",
        request=UserBody,
        responses={201: UserSerializer},
        tags=["users"],
    )
    def post(self, request: Request) -> Response:
        user = services.create_user(current_user.user(request), **validated(UserBody, request))
        return Response(UserSerializer(user).data, status=201)


class UserView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="get_user", responses=UserSerializer, tags=["users"])
    def get(self, request: Request, username: str) -> Response:
        return Response(UserSerializer(queries.find_user(username)).data)

    @extend_schema(
        operation_id="update_user", request=UserChange, responses=UserSerializer, tags=["users"]
    )
    def patch(self, request: Request, username: str) -> Response:
        """Change a user. A new password or `is_active: false` ends all sessions and tokens of the
        user; `is_active: false` also stops the user's jobs."""
        changes = validated(UserChange, request, partial=True)
        user = services.update_user(current_user.user(request), username, changes)
        return Response(UserSerializer(user).data)

    @extend_schema(operation_id="delete_user", responses={204: None}, tags=["users"])
    def delete(self, request: Request, username: str) -> Response:
        """Delete a user for good. The user's jobs stop; their records then belong to a nameless
        user."""
        services.delete_user(current_user.user(request), username)
        return Response(status=204)


class ResetLinkView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="create_password_reset_link",
        request=None,
        responses={201: ResetLinkSerializer},
        tags=["users"],
    )
    def post(self, request: Request, username: str) -> Response:
        """Create a link by which the user can set a new password, once. The present one works till
        then."""
        url = services.reset_link(current_user.user(request), username)
        expires = timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
        link = {"url": url, "expires_at": expires}
        return Response(ResetLinkSerializer(link).data, status=201)


def begin_session(request: Request, user: User, second_factor: bool, method: str) -> dict[str, Any]:
    """Log a user in who was checked; the answer is what `get_me` says."""
    login(request._request, user, "django.contrib.auth.backends.ModelBackend")
    request._request.session[mfa.VERIFIED] = second_factor
    confirmation.note(request._request.session)
    services.note_session(user, method)
    return _me(user, request)


def _me(user: User, request: Request) -> dict[str, Any]:
    by_token = isinstance(request.auth, ApiToken)
    memberships = queries.memberships(user)
    return {
        "id": user.pk,
        "username": user.get_username(),
        "email": user.email,
        "email_confirmed": user.email_confirmed,
        "is_admin": user.is_admin,
        "mfa_setup_required": not by_token and mfa.is_missing(user, request._request.session),
        "virtual_clusters": memberships,
        "admins": [] if memberships else queries.admins(),
    }


def _users(users: list[User]) -> list[Any]:
    return [UserSerializer(user).data for user in users]


def _new_token(user: User, body: dict[str, Any]) -> Response:
    row, secret = services.create_token(
        user, body.get("name", ""), body.get("expires_in_s"), body.get("scope", Scope.ADMIN)
    )
    return Response({**TokenSerializer(row).data, "token": secret}, status=201)


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "skep_platform.accounts.current_user.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "skep_platform.accounts.current_user.SessionAuthentication"
    name = "session"
    priority = 1  # before the one that drf-spectacular brings

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "skep_session"}
