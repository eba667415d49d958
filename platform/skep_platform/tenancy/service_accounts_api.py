"""REST: the service accounts of a virtual cluster and their tokens, for its VC admins."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import mfa
from skep_platform.accounts import queries as accounts
from skep_platform.accounts import services as account_services
from skep_platform.accounts.api import (
    CodeField,
    NewTokenSerializer,
    PasswordField,
    TokenSerializer,
)
from skep_platform.accounts.models import ApiToken, Scope
from skep_platform.core.api import Body, validated
from skep_platform.core.errors import Forbidden, Unauthorized
from skep_platform.core.paging import page, paged
from skep_platform.tenancy import queries, service_accounts
from skep_platform.tenancy.api import TAGS, vc_admin
from skep_platform.tenancy.models import Role, ServiceAccount, VirtualCluster


class ServiceAccountSerializer(serializers.Serializer[ServiceAccount]):
    name = serializers.CharField()
    username = serializers.CharField(help_text="Owner of its jobs: svc.VC.NAME as it was made.")
    description = serializers.CharField(allow_blank=True)
    role = serializers.ChoiceField(Role.values)
    is_active = serializers.BooleanField(source="user.is_active")
    tokens = serializers.IntegerField(help_text="Those that have not expired.")
    last_used_at = serializers.DateTimeField(
        allow_null=True, help_text="When one of its tokens was used last, to the hour."
    )
    created_at = serializers.DateTimeField()


class ServiceAccountChange(Body):
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    role = serializers.ChoiceField(
        service_accounts.ROLES, required=False, help_text="Default: member."
    )
    is_active = serializers.BooleanField(required=False, help_text="False ends all its tokens.")


class ServiceAccountBody(Body):
    name = serializers.CharField(max_length=63)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    role = serializers.ChoiceField(
        service_accounts.ROLES, required=False, help_text="Default: member."
    )


class ServiceTokenBody(Body):
    name = serializers.CharField(max_length=100, required=False)
    expires_in_s = serializers.IntegerField(
        min_value=1, required=False, allow_null=True, help_text="Default: SKEP_TOKEN_DAYS."
    )
    scope = serializers.ChoiceField(
        service_accounts.SCOPES,
        required=False,
        help_text="read: only reads; submit (the default): also works with jobs and files.",
    )
    password = PasswordField(
        required=False,
        help_text="Of the caller: needed unless the request is made by a session.",
    )
    code = CodeField(required=False, allow_blank=True, help_text="Where the caller has MFA.")


class ServiceAccountsView(APIView):
    @paged("list_service_accounts", ServiceAccountSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List the service accounts of a virtual cluster. For its VC admins and admins, as all
        that follows."""
        vc = _managed(request, name)
        return page(request, service_accounts.of(vc), _shown, "name")

    @extend_schema(
        operation_id="create_service_account",
        request=ServiceAccountBody,
        responses={201: ServiceAccountSerializer},
        tags=TAGS,
    )
    def post(self, request: Request, name: str) -> Response:
        """Create a service account: a user for a program, with tokens and without a password."""
        vc = _managed(request, name)
        body = validated(ServiceAccountBody, request)
        account = service_accounts.create(vc_admin(request, vc), vc, **body)
        return Response(_shown([account])[0], status=201)


class ServiceAccountView(APIView):
    @extend_schema(
        operation_id="get_service_account", responses=ServiceAccountSerializer, tags=TAGS
    )
    def get(self, request: Request, name: str, account: str) -> Response:
        return Response(_shown([service_accounts.find(_managed(request, name), account)])[0])

    @extend_schema(
        operation_id="update_service_account",
        request=ServiceAccountChange,
        responses=ServiceAccountSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request, name: str, account: str) -> Response:
        """Change a service account. `is_active: false` revokes its tokens and stops its jobs."""
        vc = _managed(request, name)
        changes = validated(ServiceAccountChange, request, partial=True)
        changed = service_accounts.update(vc_admin(request, vc), vc, account, **changes)
        return Response(_shown([changed])[0])

    @extend_schema(operation_id="delete_service_account", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str, account: str) -> Response:
        """Remove a service account. Its tokens end at once and its jobs stop."""
        vc = _managed(request, name)
        service_accounts.remove(vc_admin(request, vc), vc, account)
        return Response(status=204)


class ServiceTokensView(APIView):
    @extend_schema(
        operation_id="list_service_account_tokens",
        responses=TokenSerializer(many=True),
        tags=TAGS,
    )
    def get(self, request: Request, name: str, account: str) -> Response:
        """List the tokens of a service account, newest first; there are at most 50."""
        user = service_accounts.find(_managed(request, name), account).user
        return Response([TokenSerializer(token).data for token in accounts.tokens_of(user)])

    @extend_schema(
        operation_id="create_service_account_token",
        request=ServiceTokenBody,
        responses={201: NewTokenSerializer},
        tags=TAGS,
    )
    def post(self, request: Request, name: str, account: str) -> Response:
        """Make a token of a service account. With a session, or with the caller's password: a token
        alone makes no tokens, which might outlive it."""
        vc = _managed(request, name)
        body = validated(ServiceTokenBody, request)
        _confirm(request, body)
        row, secret = service_accounts.create_token(
            vc,
            account,
            token_name=body.get("name", ""),
            seconds=body.get("expires_in_s"),
            scope=body.get("scope", Scope.SUBMIT),
        )
        return Response({**TokenSerializer(row).data, "token": secret}, status=201)


class ServiceTokenView(APIView):
    @extend_schema(operation_id="delete_service_account_token", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str, account: str, token: str) -> Response:
        """Revoke a token of a service account: it is refused within a second."""
        service_accounts.delete_token(_managed(request, name), account, token)
        return Response(status=204)


def _managed(request: Request, name: str) -> VirtualCluster:
    """Return a virtual cluster that the caller manages. Raises NotFound and Forbidden."""
    vc = queries.find(request.user, name)
    vc_admin(request, vc)
    return vc


def _confirm(request: Request, body: dict[str, Any]) -> None:
    """Ask for the password where the caller came by a token. Raises Forbidden `token_by_token`,
    and what a login does."""
    if not isinstance(request.auth, ApiToken):
        return
    if "password" not in body:
        message = "A token cannot make tokens: give your password as well, or use the web page."
        raise Forbidden(message, code="token_by_token")
    caller, code = request.user.get_username(), body.get("code", "")
    found, second = account_services.check_login(request, caller, body["password"], code)
    if found.pk != request.user.pk:  # the directory may know another user by this name
        raise Unauthorized("Wrong user name or password.", code="login_failed")
    if mfa.is_required(found) and not second:
        message = "Log in on the web page first, and set up MFA there."
        raise Forbidden(message, code="mfa_setup_required")


def _shown(rows: list[ServiceAccount]) -> list[Any]:
    return [ServiceAccountSerializer(row).data for row in rows]
