"""REST: the API tokens of all users, for admins."""

from __future__ import annotations

from typing import Any, Literal

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import queries, services
from skep_platform.accounts.api import TokenSerializer
from skep_platform.accounts.models import ApiToken
from skep_platform.core.api import IsAdmin
from skep_platform.core.errors import SkepError
from skep_platform.core.paging import page, paged

Kind = Literal["user", "service_account", "job"]
ORDERINGS = {"created_at": "created", "name": "name", "owner": "owner"}


class OwnedTokenSerializer(TokenSerializer):
    owner = serializers.CharField(source="user.username")
    kind = serializers.SerializerMethodField(help_text="Whom it was made for.")
    job_id = serializers.UUIDField(allow_null=True, help_text="Of the job with which it ends.")

    def get_kind(self, token: ApiToken) -> Kind:
        if token.job_id is not None:
            return "job"
        return "service_account" if token.user.is_service_account else "user"


class AllTokensView(APIView):
    permission_classes = (IsAdmin,)

    @paged(
        "list_all_tokens",
        OwnedTokenSerializer,
        ["users"],
        OpenApiParameter("user", str, description="Only those of this user."),
        OpenApiParameter(
            "ordering",
            str,
            description=f"Of {', '.join(ORDERINGS)}; '-' descends; default -created_at.",
        ),
    )
    def get(self, request: Request) -> Response:
        """List the API tokens of all users, newest first. For admins."""
        ordering = request.query_params.get("ordering") or "-created_at"
        column = ORDERINGS.get(ordering.removeprefix("-"))
        if column is None:
            message = f"ordering is one of {', '.join(ORDERINGS)}."
            details = {"parameter": "ordering", "value": ordering[:100]}
            raise SkepError(message, code="invalid_filter", **details)
        rows = queries.all_tokens(request.query_params.get("user", "")[:150])
        descending = ordering.startswith("-")
        return page(request, rows, _shown, column, "public_id", descending=descending)


class AnyTokenView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="revoke_token", responses={204: None}, tags=["users"])
    def delete(self, request: Request, id: str) -> Response:
        """Revoke a token of any user: it is refused within a second. For admins."""
        services.revoke_any_token(id)
        return Response(status=204)


def _shown(tokens: list[ApiToken]) -> list[Any]:
    return [OwnedTokenSerializer(token).data for token in tokens]
