"""REST: logging in, API tokens, oneself, and users for the admin."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import login, logout, update_session_auth_hash
from django.middleware.csrf import get_token
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
from skep_platform.core.api import Body, IsAdmin, page, validated
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
    created_at = serializers.DateTimeField(source="created")
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
        min_value=1, required=False, allow_null=True, help_text="Default: 90 days."
    )


class TokenLogin(Credentials, TokenBody):
    pass


class PasswordChange(Body):
    current = PasswordField()
    new = PasswordField()


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


class LogoutView(APIView):
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
        """Ends all your other sessions and all your tokens."""
        body = validated(PasswordChange, request)
        user = services.change_own_password(
            request, acting.user(request), body["current"], body["new"]
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
        """A new password or `is_active: false` ends all sessions and tokens of the user."""
        changes = validated(UserChange, request, partial=True)
        user = services.update_user(acting.user(request), username, changes)
        return Response(UserSerializer(user).data)


def _me(user: User) -> dict[str, Any]:
    return {
        "id": user.pk,
        "username": user.get_username(),
        "email": user.email,
        "is_admin": user.is_admin,
        "virtual_clusters": queries.memberships(user),
    }


def _users(users: list[User]) -> list[Any]:
    return [UserSerializer(user).data for user in users]


def _new_token(user: User, body: dict[str, Any]) -> Response:
    row, secret = services.create_token(user, body.get("name", ""), body.get("expires_in_s"))
    return Response({**TokenSerializer(row).data, "token": secret}, status=201)
