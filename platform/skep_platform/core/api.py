"""What every API view shares: errors as {code, message, details}, and pages by cursor."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.pagination import CursorPagination
from rest_framework.response import Response
from rest_framework.views import set_rollback

from skep_platform.core.errors import SkepError

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
    if isinstance(error, SkepError):
        set_rollback()
        return Response(error.as_dict(), status=error.status)
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
        headers = {}
        if getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = error.auth_header
        if getattr(error, "wait", None):
            headers["Retry-After"] = str(int(error.wait))
        body = {"code": CODES.get(type(error), "error"), "message": str(error.detail), "details": {}}
        return Response(body, status=error.status_code, headers=headers)
    return None


class CursorPages(CursorPagination):
    """{"results": [...], "next": url or null, "previous": url or null}; never counts a big table."""

    page_size = 50
    max_page_size = 500
    page_size_query_param = "limit"
    ordering = "-created_at"
