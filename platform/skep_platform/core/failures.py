"""Errors that Django answers itself, outside any API view: under /api/ they look like others."""

from __future__ import annotations

import sys

import structlog
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults

from skep_platform.core import outages

API = "/api/"


def error(status: int, code: str, message: str, **details: object) -> JsonResponse:
    return JsonResponse({"code": code, "message": message, "details": details}, status=status)


def unknown_route(request: HttpRequest, **_: object) -> JsonResponse:
    message = (
        f"There is nothing at {request.path[:200]}; the REST API is described at /api/v1/docs."
    )
    return error(404, "unknown_route", message)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return error(413, "request_too_large", "The request is too large.")
    if isinstance(exception, DisallowedHost):
        # Whatever the path: this server does not know itself by that name.
        return error(400, "host_not_allowed", "Set SKEP_PUBLIC_URL or SKEP_ALLOWED_HOSTS.")
    if request.path.startswith(API):
        return error(400, "malformed_request", "The request cannot be understood.")
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith(API):
        return error(403, "forbidden", "You may not do this.")
    return defaults.permission_denied(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith(API):
        return unknown_route(request)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """What no view foresaw, as before the view is reached: a session is read from the database."""
    known = outages.told(sys.exc_info()[1] or Exception())
    if known is not None:
        answer = error(known.status, known.code, known.message, **known.details)
        if wait := known.details.get("retry_after_s"):
            answer.headers["Retry-After"] = str(wait)
        return answer
    if not request.path.startswith(API):
        return defaults.server_error(request)
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    message = "The server failed; its log has the reason under this request id."
    return error(500, "internal_error", message, request_id=request_id)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    message = "Send the cookie skep_csrf's value as the header X-CSRFToken; GET /api/v1/auth/csrf."
    return error(403, "csrf_failed", message, reason=reason)
