"""What happens around every HTTP request: probes, a request id, one log line."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.functional import SimpleLazyObject

from skep_platform.core import failures, health
from skep_platform.core.ids import uuid7

log = structlog.get_logger("skep.request")

GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
GetResponse = Callable[[HttpRequest], HttpResponseBase]


class Probes:
    """Answers /healthz and /readyz before the Host header is looked at: a kubelet or a load
    balancer asks by address."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method in ("GET", "HEAD"):
            if request.path == "/healthz":
                return HttpResponse("ok\n", content_type="text/plain")
            if request.path == "/readyz":
                return health.ready()
        return self.get_response(request)


class Compress(GZipMiddleware):
    """Compresses large JSON answers for those who take it (lists of nodes shrink tenfold). Small
    ones are not worth the CPU; downloads and logs of tasks go as they are: the compression of a
    stream would hold their lines back."""

    LEAST_BYTES = 16 * 1024

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> Any:
        if (
            response.streaming
            or not response.get("Content-Type", "").startswith("application/json")
            or len(response.content) < self.LEAST_BYTES  # type: ignore[attr-defined]
        ):
            return response
        return super().process_response(request, response)


class RequestLog:
    """Gives the request an id (the caller's, when it is plain), and logs it once. The path goes
    into the log, the query string does not."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if GIVEN_ID.fullmatch(given) else str(uuid7())
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = time.perf_counter()
        response = self._refusal(request) or self.get_response(request)
        response["X-Request-Id"] = request_id
        self._tell(request, response, time.perf_counter() - started)
        return response

    def _refusal(self, request: HttpRequest) -> HttpResponseBase | None:
        """No address of ours has a NUL character, and PostgreSQL takes none."""
        if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            return failures.error(400, "malformed_request", "The address has a NUL character.")
        return None

    def _tell(self, request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
        if request.path.startswith(settings.STATIC_URL) and response.status_code < 400:
            return
        level = "error" if response.status_code >= 500 else "info"
        getattr(log, level)(
            "request",
            method=request.method,
            path=request.path[:500],
            status=response.status_code,
            ms=round(seconds * 1000, 1),
            user=_username(request),
        )


def _username(request: HttpRequest) -> str:
    """Of a user who was looked up anyway: the log costs no query."""
    user = getattr(request, "user", None)
    if isinstance(user, SimpleLazyObject):
        user = getattr(request, "_cached_user", None)
    return user.get_username() if user is not None else ""
