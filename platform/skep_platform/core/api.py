"""What every API view shares: errors as {code, message, details}, permissions, parsing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, RequestDataTooBig
from django.db import DatabaseError, InterfaceError
from django.http import Http404
from rest_framework import exceptions, permissions, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, set_rollback

from skep_jobfile.plain import is_plain
from skep_platform.core import failures
from skep_platform.core.errors import SkepError

log = structlog.get_logger(__name__)

CODES = {
    exceptions.NotAuthenticated: "not_authenticated",
    exceptions.AuthenticationFailed: "authentication_failed",
    exceptions.PermissionDenied: "forbidden",
    exceptions.NotFound: "not_found",
    exceptions.MethodNotAllowed: "method_not_allowed",
    exceptions.UnsupportedMediaType: "unsupported_media_type",
    exceptions.NotAcceptable: "not_acceptable",
    exceptions.ParseError: "malformed_request",
    exceptions.Throttled: "throttled",
}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Renders every foreseen error the same way; anything else is a defect and becomes a 500."""
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    elif isinstance(error, RequestDataTooBig):
        error = SkepError("The request is too large.", code="request_too_large")
        error.status = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    elif isinstance(error, DatabaseError | InterfaceError):
        error = failures.as_refusal(error) or error
    elif isinstance(error, ObjectDoesNotExist):
        # Views look for what a request names in a way that answers 404; what is read again later
        # and is gone was deleted in between.
        log.warning("row_gone", error=str(error))
        error = failures.changed_meanwhile()
    if isinstance(error, SkepError):
        set_rollback()
        return Response(error.as_dict(), status=error.status, headers=_skep_headers(error))
    if isinstance(error, exceptions.ValidationError):
        set_rollback()
        body = {
            "code": "invalid",
            "message": "Some fields are not valid; see details.",
            "details": {"fields": error.detail},
        }
        return Response(body, status=status.HTTP_400_BAD_REQUEST)
    if isinstance(error, exceptions.APIException):
        set_rollback()
        body = {"code": _code(error), "message": str(error.detail), "details": {}}
        return Response(body, status=error.status_code, headers=_headers(error))
    return None


SECRET = frozenset({"password", "current", "new", "token"})  # never shown


def _plain(value: Any) -> bool:
    """Whether no text in it has control characters; line ends may be those of any system."""
    if isinstance(value, str):
        return is_plain(value.replace("\r\n", "\n"))
    if isinstance(value, Mapping):
        return all(_plain(key) and _plain(child) for key, child in value.items())
    return not isinstance(value, list) or all(map(_plain, value))


# A request's body: a field that it does not list is refused by name, never ignored. (A docstring
# would be repeated in the schema of each.)
class Body(serializers.Serializer[Any]):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [str(name) for name in data if name not in self.fields]
            if unknown:
                raise serializers.ValidationError({name: ["Unknown field."] for name in unknown})
            steering = [str(name) for name in data if name not in SECRET and not _plain(data[name])]
            if steering:
                message = "Control characters are not taken."
                raise serializers.ValidationError({name: [message] for name in steering})
        return super().to_internal_value(data)


class IsAdmin(permissions.BasePermission):
    """The cluster's administrators."""

    message = "Only an admin may do this."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return bool(getattr(request.user, "is_admin", False))


class AdminWrites(permissions.IsAuthenticated):
    """Everybody who is logged in may read, admins may write."""

    message = "Only an admin may do this."

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not super().has_permission(request, view):
            return False
        read = request.method in permissions.SAFE_METHODS
        return read or bool(getattr(request.user, "is_admin", False))


def validated(body: type[Body], request: Request, *, partial: bool = False) -> dict[str, Any]:
    """Return the request's body, checked. Raises ValidationError."""
    parsed = body(data=request.data, partial=partial)
    parsed.is_valid(raise_exception=True)
    return dict(parsed.validated_data)


def parameters(query: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """Return the parameters in the request's address, checked. Raises ValidationError."""
    parsed = query(data=request.query_params)
    parsed.is_valid(raise_exception=True)
    return dict(parsed.validated_data)


def _code(error: exceptions.APIException) -> str:
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), "error")


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(error.auth_header)  # type: ignore[attr-defined]
    if getattr(error, "wait", None):
        headers["Retry-After"] = str(int(error.wait))  # type: ignore[attr-defined]
    return headers


def _skep_headers(error: SkepError) -> dict[str, str]:
    wait = error.details.get("retry_after_s")
    return {"Retry-After": str(wait)} if wait else {}
