"""What happens around every HTTP request: probes, a request id, one log line, and answers that a
page has already cost it a few hundred bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import redis
import structlog
from django.conf import settings
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.middleware.http import ConditionalGetMiddleware
from django.utils.functional import SimpleLazyObject
from django.utils.http import quote_etag
from redis.backoff import NoBackoff
from redis.retry import Retry

from skep_agent import tracing
from skep_platform.core import caller, failures, metrics, redis_clients
from skep_platform.core.models import uuid7

log = structlog.get_logger("skep.request")

TOKEN_PREFIX = settings.REST_KNOX["TOKEN_PREFIX"]
TOKEN = re.compile(rf"{TOKEN_PREFIX}\w+")
GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
ENCODED_PARAMETER = re.compile(r"\*\s*=")
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
                return ready()
        return self.get_response(request)


class Sessions(SessionMiddleware):
    """Django's sessions, without keys that no row can have."""

    def process_request(self, request: HttpRequest) -> None:
        request.session = self.SessionStore(session_key(request.COOKIES))


def session_key(cookies: Mapping[str, str]) -> str | None:
    """Return the key of a browser's session, if one is given. A quoted cookie may spell any
    character as octal digits: also NUL, which PostgreSQL refuses with an error."""
    key = cookies.get(settings.SESSION_COOKIE_NAME, "")
    return key if key.isalnum() else None


class Compress(GZipMiddleware):
    """Compresses large JSON answers for those who take it (lists of nodes shrink tenfold). Small
    ones are not worth the CPU; downloads and logs of tasks go as they are: the compression of a
    stream would hold their lines back."""

    LEAST_BYTES = 4096  # the first round trip of a connection takes three times as much

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> Any:
        if (
            response.streaming
            or not response.get("Content-Type", "").startswith("application/json")
            or len(response.content) < self.LEAST_BYTES  # type: ignore[attr-defined]
        ):
            return response
        return super().process_response(request, response)


class RequestLog:
    """Gives the request an id (the caller's, when it is plain), makes its client the present caller
    (`core.caller`), and logs it once. The path goes into the log, the query string does not."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if GIVEN_ID.fullmatch(given) else str(uuid7())
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = time.perf_counter()
        address, agent = request.META.get("REMOTE_ADDR", ""), request.headers.get("User-Agent", "")
        with _traced(request, request_id) as span, caller.calling(address, agent, request_id):
            if span.traceparent:
                structlog.contextvars.bind_contextvars(trace_id=span.traceparent.split("-")[1])
            response = self._refusal(request) or self.get_response(request)
            _note_answer(span, request, response)
        response["X-Request-Id"] = request_id
        seconds = time.perf_counter() - started
        metrics.count_request(request, response, seconds)
        self._log(request, response, seconds)
        return response

    def _refusal(self, request: HttpRequest) -> HttpResponseBase | None:
        """Refuse a NUL character: no address of ours has one, and PostgreSQL takes none. And media
        types with a parameter in a character set of its own (RFC 2231), which Django decodes with
        any codec of Python, or fails to."""
        if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            return failures.error(400, "malformed_request", "The address has a NUL character.")
        for name in ("Accept", "Content-Type"):
            if ENCODED_PARAMETER.search(request.headers.get(name, "")):
                message = f"Parameters of {name} are plain text."
                return failures.error(400, "malformed_request", message)
        return None

    def _log(self, request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
        if request.path.startswith(settings.STATIC_URL) and response.status_code < 400:
            return
        level = "error" if response.status_code >= 500 else "info"
        getattr(log, level)(
            "request",
            method=request.method,
            path=without_tokens(request.path)[:500],
            status=response.status_code,
            ms=round(seconds * 1000, 1),
            user=_username(request),
        )


def _traced(request: HttpRequest, request_id: str) -> AbstractContextManager[tracing.Span]:
    """Return the span of a request, which goes on with the trace of the caller. Its name has no
    path: that of a route is known once it is answered."""
    method = request.method or ""
    about = {"http.request.method": method, "skep.request.id": request_id}
    return tracing.span(method, request.headers.get("traceparent", ""), about, server=True)


def _note_answer(span: tracing.Span, request: HttpRequest, response: HttpResponseBase) -> None:
    """Name the span by its route, which has no id of anything."""
    if not span.traceparent:
        return
    route = request.resolver_match.route if request.resolver_match else ""
    span.rename(f"{request.method} /{route}" if route else f"{request.method}")
    span.note({"http.route": f"/{route}", "http.response.status_code": response.status_code})
    if response.status_code >= 500:
        span.failed(str(response.status_code))


def without_tokens(path: str) -> str:
    """Return a path with stars for API tokens: OpenPAI's clients revoke a token by its address."""
    return TOKEN.sub(f"{TOKEN_PREFIX}***", path)


def _username(request: HttpRequest) -> str:
    """Return the name of a user who was looked up anyway: the log costs no query."""
    user = getattr(request, "user", None)
    if isinstance(user, SimpleLazyObject):
        user = getattr(request, "_cached_user", None)
    return user.get_username() if user is not None else ""


_valkey_answered = threading.Event()


def ready() -> JsonResponse:
    """Return whether this process is ready to serve: {"database": bool, "valkey": bool}, with
    status 503 unless the database answers and Valkey has answered once.

    Without Valkey it serves as well, if less. All processes lose it at the same time: a load
    balancer that left them out would end pages and agents that could go on. Only a process that
    Valkey never answered waits for it: in a rollout with a wrong address the former ones stay.
    """
    answers = {"database": _database(), "valkey": _valkey()}
    if answers["valkey"]:
        _valkey_answered.set()
    fine = answers["database"] and _valkey_answered.is_set()
    return JsonResponse(answers, status=200 if fine else 503)


def _database() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return True
    except (DatabaseError, OSError) as error:
        log.warning("not_ready", part="database", error=type(error).__name__)
        return False


@lru_cache(maxsize=1)
def _probed_valkey() -> redis.Redis:
    """Return a client that gives up on a Valkey that hangs before the probe ends."""
    retry = Retry(NoBackoff(), 0)
    return redis_clients.client(0.5, socket_timeout=1, socket_connect_timeout=1, retry=retry)


def _valkey() -> bool:
    try:
        return bool(_probed_valkey().ping())
    except (redis.RedisError, OSError) as error:
        log.warning("valkey_away", error=type(error).__name__)
        return False


TAG = 6  # letters: 36 bits
MAX_TAGS = TAG * 500  # of the largest page


class Conditional(ConditionalGetMiddleware):
    """Tags JSON answers to GET, and leaves out what the caller has.

    A page reads its lists again at every notification. It names what it has, and gets only the
    rest:

    * `If-None-Match`: the whole answer is the same, 304 without a body.
    * `A-IM: rows` (RFC 3229, delta encoding): 226 with a list in which rows that the page has are
      replaced by `[first, count]`, their place in the page's copy, and with `row_tags`, one tag of
      6 letters for each row that is sent. The page sends the tags of its copy in `Skep-Row-Tags`.

    No cache on the way keeps an answer (`Cache-Control: no-store`): the page keeps its copies
    itself.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> Any:
        if request.method != "GET" or response.status_code != 200 or not _is_json(response):
            return response
        # Of the whole answer, so that it is the same whatever the caller has of it.
        response.headers.setdefault("ETag", quote_etag(_digest(response.content)))  # type: ignore[attr-defined]
        if request.headers.get("A-IM") == "rows":
            response.headers["Vary"] = ", ".join(filter(None, [response.get("Vary"), "A-IM"]))
        answer = super().process_response(request, response)
        whole = answer.status_code == 200 and "Content-Encoding" not in answer.headers
        if whole and request.headers.get("A-IM") == "rows":
            _leave_out_known_rows(answer, request.headers.get("Skep-Row-Tags", "")[:MAX_TAGS])
        return answer

    def needs_etag(self, response: HttpResponseBase) -> bool:
        return False  # set above: Django's own rule skips answers that are not to be stored


def _is_json(response: HttpResponseBase) -> bool:
    kind = response.headers.get("Content-Type", "")
    return not response.streaming and kind.startswith("application/json")


def _leave_out_known_rows(response: Any, known: str) -> None:
    body = json.loads(response.content)
    if not isinstance(body, dict) or not isinstance(body.get("results"), list):
        return
    places = {known[at : at + TAG]: at // TAG for at in range(0, len(known), TAG)}
    rows: list[Any] = []
    tags = ""
    for row in body["results"]:
        tag = _digest(json.dumps(row).encode())[:TAG]
        place = places.get(tag)
        if place is None:
            rows.append(row)
            tags += tag
        elif rows and isinstance(rows[-1], list) and sum(rows[-1]) == place:
            rows[-1][1] += 1
        else:
            rows.append([place, 1])
    changed = body | {"results": rows, "row_tags": tags}
    response.content = json.dumps(changed, separators=(",", ":"), ensure_ascii=False).encode()
    response.status_code = 226
    response.headers["IM"] = "rows"
    response.headers["Content-Length"] = str(len(response.content))


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.blake2b(content, digest_size=12).digest()).decode()
