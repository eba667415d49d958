"""One flow of request, answer and retry for the sync and the async client: pure, it only yields
what to do next and is sent the outcome."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import pydantic

from skep_client.archives import AsyncBody, Body
from skep_client.calls import Call
from skep_client.errors import ServerUnreachable, SkepError

T = TypeVar("T")
# Seconds before each repetition: a server that restarts is back within them.
RETRY_DELAYS_S = (0.2, 0.5, 1.0, 2.0, 4.0)
RETRY_STATUSES = frozenset({429, 502, 503, 504})
# After these a request may have been done, as after a lost answer.
UNSURE_STATUSES = frozenset({502, 503, 504})
LONGEST_WAIT_S = 30.0  # that a server may ask for; beyond, its refusal is raised
OUTAGE_DELAY_S = 5.0  # between two tries of a call that outlasts an outage
# Without handlers of a program, warnings go to standard error.
log = logging.getLogger("skep_client")


@dataclass(frozen=True, slots=True)
class Send:
    request: httpx.Request


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


Step = Send | Sleep
Outcome = httpx.Response | httpx.TransportError | None


def checked(server: str, token: str) -> str:
    """Return the address of a server without a / at its end. Raises SkepError for what is none, and
    for a token that no header can hold."""
    try:
        url = httpx.URL(server)
        urlsplit(server)  # as WebSockets read it
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        message = f"{server!r} is no address of a server, such as https://skep.example.org."
        raise ServerUnreachable(message)
    if not (token.isascii() and token.isprintable()):
        raise SkepError(401, "not_authenticated", "The token has characters that no token has.")
    return server.rstrip("/")


def request_of(
    http: httpx.Client | httpx.AsyncClient, server: str, token: str, call: Call[Any]
) -> httpx.Request:
    """Return the request that a call is sent as. Raises SkepError for names that cannot be sent."""
    headers = {"Accept": "application/json", **call.headers}
    content: Any = call.content
    if isinstance(content, Body) and isinstance(http, httpx.AsyncClient):
        content = AsyncBody(content)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    # In a name that a user typed; the rest of it would be no part of the name.
    path = call.path.replace("?", "%3F").replace("#", "%23")
    try:
        return http.build_request(
            call.method,
            f"{server}{call.root}{path}",
            params=call.params or None,
            json=call.json,
            content=content,
            headers=headers,
            timeout=call.timeout_s,
        )
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        message = f"A name or text is too long, or has characters that cannot be sent: {error}"
        raise SkepError(400, "not_sendable", message) from None


def exchange(
    call: Call[T], request: httpx.Request, delays_s: Sequence[float] = RETRY_DELAYS_S
) -> Generator[Step, Outcome, T]:
    """Send, repeat what may be repeated, and read the answer. Raises SkepError."""
    response, unsure = yield from _sent(call, request, delays_s, time.monotonic)
    if unsure and call.method == "DELETE" and response.status_code == 404:
        deletes = call.answer is None or call.gone is not None
        if deletes and not isinstance(refusal(response), ServerUnreachable):
            return call.gone  # type: ignore[return-value]  # None, as the answer
    return _read(call, response)


def repeated(
    call: Call[Any],
    request: httpx.Request,
    delays_s: Sequence[float] = RETRY_DELAYS_S,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Step, Outcome, httpx.Response]:
    """Send, and repeat what may be repeated. Returns the last response, which may be a refusal.
    Raises ServerUnreachable where there is none."""
    response, _ = yield from _sent(call, request, delays_s, clock)
    return response


def _sent(
    call: Call[Any], request: httpx.Request, delays_s: Sequence[float], clock: Callable[[], float]
) -> Generator[Step, Outcome, tuple[httpx.Response, bool]]:
    """As `repeated`, and return whether a request before the last one may have been done."""
    delays, end, away = iter(delays_s), clock() + call.outage_s, False
    unsure = False
    while True:
        outcome = yield Send(request)
        if not _worth_repeating(call, outcome):
            break
        asked = _asked_wait(outcome)
        delay = next(delays, None) if asked <= LONGEST_WAIT_S else None
        if delay is None:
            delay = OUTAGE_DELAY_S
            if clock() + max(delay, asked) > end:
                break
            if not away:
                away = True
                log.warning(_notice(request, outcome, call.outage_s))
        unsure = unsure or _may_have_been_done(outcome)
        yield Sleep(max(delay, asked))
    if not isinstance(outcome, httpx.Response):
        raise ServerUnreachable(f"No answer from {_server(request)}: {outcome}")
    if away and outcome.status_code not in RETRY_STATUSES:
        log.warning(f"{_server(request)} answers again.")
    return outcome, unsure


def _notice(request: httpx.Request, outcome: Outcome, outage_s: float) -> str:
    status = outcome.status_code if isinstance(outcome, httpx.Response) else None
    what = f"answers {status}" if status else "does not answer"
    minutes = math.ceil(outage_s / 60)
    return f"{_server(request)} {what}; trying again for up to {minutes} min."


def _server(request: httpx.Request) -> str:
    return str(request.url.copy_with(path="/", query=None, userinfo=b""))


def _worth_repeating(call: Call[Any], outcome: Outcome) -> bool:
    if isinstance(outcome, httpx.Response):
        return call.repeatable and outcome.status_code in RETRY_STATUSES
    if isinstance(outcome, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return False  # an address or a token that can never be sent
    return call.repeatable or not _may_have_been_done(outcome)


def _may_have_been_done(outcome: Outcome) -> bool:
    """Return whether the server may have done what it was asked: nothing has reached it when the
    connection was never made."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in UNSURE_STATUSES
    return not isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout)


def _asked_wait(outcome: Outcome) -> float:
    """Return the seconds that Retry-After asks for; a date counts as none."""
    if not isinstance(outcome, httpx.Response):
        return 0.0
    value = outcome.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else 0.0


def _read(call: Call[T], response: httpx.Response) -> T:
    if response.is_success:
        return _answer(call, response)
    raise refusal(response)


def refusal(response: httpx.Response) -> SkepError:
    """Return the error of an answer whose body was read."""
    try:
        body = response.json()
        return SkepError(
            response.status_code, body["code"], body["message"], body.get("details") or {}
        )
    except (ValueError, KeyError, TypeError):
        return ServerUnreachable(
            f"{response.url} answered {response.status_code} {response.reason_phrase}, "
            "which is not how Skep refuses; is this its address?"
        )


def _answer(call: Call[T], response: httpx.Response) -> T:
    if call.answer is None:
        return None  # type: ignore[return-value]
    if call.answer is str:
        return response.text  # type: ignore[return-value]
    if call.answer is bytes:
        return response.content  # type: ignore[return-value]
    try:
        return pydantic.TypeAdapter(call.answer).validate_json(response.content)
    except pydantic.ValidationError as error:
        raise ServerUnreachable(
            f"{response.url} answered something else than Skep does: {error.errors()[0]['msg']}"
        ) from None
