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
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import acting, queries, services
from skep_platform.accounts.models import ApiToken, User
from skep_platform.accounts.scopes import Scope
from skep_platform.core.api import Body, IsAdmin, page, validated
from skep_platform.core.errors import Forbidden
from skep_platform.core.schema import PAGE_PARAMETERS, page_of


class PasswordField(serializers.CharField):
    def __init__(self, **kwargs: Any) -> None:
        style = {"input_type": "password"}
        super().__init__(max_length=1024, trim_whitespace=False, style=style, **kwargs)


class MembershipSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    role = serializers.ChoiceField(["member", "manager"])


class MeSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField(allow_blank=True)
    is_admin = serializers.BooleanField()
    virtual_clusters = MembershipSerializer(many=True)
    admins = serializers.ListField(
        child=serializers.CharField(),
        help_text="Whom to ask for a virtual cluster; told to those who are in none.",
    )


class UserSerializer(serializers.Serializer[User]):
    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField(allow_blank=True)
    is_admin = serializers.BooleanField(source="is_superuser")
    is_active = serializers.BooleanField()
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
    token = serializers.CharField(help_text="Told only here.")


class CsrfSerializer(serializers.Serializer[Any]):
    csrf_token = serializers.CharField()


class Credentials(Body):
    username = serializers.CharField(max_length=150)
    password = PasswordField()


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
    url = serializers.CharField(help_text="Told only here; whoever has it may set the password.")
    expires_at = serializers.DateTimeField()


class UserBody(Body):
    username = serializers.CharField(max_length=150)
    password = PasswordField()
    email = serializers.EmailField(allow_blank=True, required=False)
    is_admin = serializers.BooleanField(required=False)


class UserChange(Body):
    email = serializers.EmailField(allow_blank=True, required=False)
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
        operation_id="login", request=Credentials, responses=MeSerializer, auth=[], tags=["auth"]
    )
    def post(self, request: Request) -> Response:
        """Starts a session (cookie `skep_session`)."""
        user = services.check_password(request, **validated(Credentials, request))
        login(request._request, user)
        return Response(_me(user))


class PasswordResetView(Public):
    @extend_schema(
        operation_id="reset_password",
        request=PasswordReset,
        responses={204: None},
        auth=[],
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Sets a new password by a link that an admin made. Works once; ends all sessions and
        tokens."""
        body = validated(PasswordReset, request)
        services.reset_password(request, body["username"], body["token"], body["new"])
        return Response(status=204)


class LogoutView(APIView):
    token_scope = Scope.READ

    @extend_schema(operation_id="logout", request=None, responses={204: None}, tags=["auth"])
    def post(self, request: Request) -> Response:
        """Ends the session, or deletes the token that the request was made with."""
        if isinstance(request.auth, ApiToken):
            request.auth.delete()
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
        """A token for name and password: how a command line logs in."""
        body = validated(TokenLogin, request)
        user = services.check_password(request, body["username"], body["password"])
        services.note_login(user)
        return _new_token(user, body)


class TokensView(APIView):
    @extend_schema(operation_id="list_tokens", responses=TokenSerializer(many=True), tags=["auth"])
    def get(self, request: Request) -> Response:
        """Your own tokens, newest first; there are at most 50."""
        tokens = queries.tokens_of(acting.user(request))
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
        return _new_token(acting.user(request), validated(TokenBody, request))


class TokenView(APIView):
    @extend_schema(operation_id="delete_token", responses={204: None}, tags=["auth"])
    def delete(self, request: Request, id: str) -> Response:
        services.delete_token(acting.user(request), id)
        return Response(status=204)


class MeView(APIView):
    @extend_schema(operation_id="get_me", responses=MeSerializer, tags=["me"])
    def get(self, request: Request) -> Response:
        return Response(_me(acting.user(request)))


class MyPasswordView(APIView):
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
            acting.user(request),
            body["current"],
            body["new"],
            keep_tokens=body.get("keep_tokens", False),
        )
        update_session_auth_hash(request._request, user)
        return Response(status=204)


class UsersView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="list_users",
        parameters=PAGE_PARAMETERS,
        responses=page_of(UserSerializer),
        tags=["users"],
    )
    def get(self, request: Request) -> Response:
        return page(self, request, queries.users(), _users, "username")

    @extend_schema(
        operation_id="create_user",
        request=UserBody,
        responses={201: UserSerializer},
        tags=["users"],
    )
    def post(self, request: Request) -> Response:
        user = services.create_user(acting.user(request), **validated(UserBody, request))
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
        """A new password or `is_active: false` ends all sessions and tokens of the user;
        `is_active: false` also stops the user's jobs."""
        changes = validated(UserChange, request, partial=True)
        user = services.update_user(acting.user(request), username, changes)
        return Response(UserSerializer(user).data)

    @extend_schema(operation_id="delete_user", responses={204: None}, tags=["users"])
    def delete(self, request: Request, username: str) -> Response:
        """For good. Its jobs stop; what is left of them belongs to a nameless user."""
        services.delete_user(acting.user(request), username)
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
        """A link by which the user sets a new password, once. The present one works till then."""
        url = services.reset_link(acting.user(request), username)
        expires = timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
        told = {"url": url, "expires_at": expires}
        return Response(ResetLinkSerializer(told).data, status=201)


def _me(user: User) -> dict[str, Any]:
    memberships = queries.memberships(user)
    return {
        "id": user.pk,
        "username": user.get_username(),
        "email": user.email,
        "is_admin": user.is_admin,
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
