"""Limits on requests that cost much, or that guess secrets: so many a minute for each user, and for
each address of clients that are not logged in. Set on a view by `throttle_classes`.

Logins have limits of their own (`accounts.throttle`), and so have submits, checks and uploads.
"""

from __future__ import annotations

import ipaddress
from typing import Any

import redis
import structlog
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from skep_platform.core.errors import TooMany
from skep_platform.core.notifications import valkey

log = structlog.get_logger(__name__)

WINDOW_S = 60


class Clients(BaseThrottle):
    """Distinguishes clients that are not logged in: by address, and of IPv6 by its /64 network,
    of which one client has all addresses."""

    def get_ident(self, request: Request) -> str:
        """Return the address or network of the client; see `core.serving.behind_proxies`."""
        address = super().get_ident(request) or ""
        try:
            whole = ipaddress.IPv6Address(address)
        except ValueError:
            return address
        network = ipaddress.IPv6Network((whole, 64), strict=False)
        return str(whole.ipv4_mapped or network)


class PerMinute(Clients):
    """Counts requests under `name`. With `parameters`, only those that have one of them in their
    address: a list is cheap, and a search in it is not."""

    name = ""
    most = 0
    parameters: tuple[str, ...] = ()

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Raises TooMany. Lets everybody ask while Valkey is down."""
        if self.parameters and not any(map(request.query_params.get, self.parameters)):
            return True
        counted = self.count(request)
        if counted and counted[0] > self.most:
            raise self.too_many(counted[1])
        return True

    def count(self, request: Request) -> tuple[int, int] | None:
        """Return how many requests there were in this window, this one included, and how many
        seconds are left of it; None while Valkey is down."""
        key = self.key(request)
        try:
            pipeline = valkey().pipeline()
            pipeline.incr(key)
            pipeline.expire(key, WINDOW_S, nx=True)
            pipeline.ttl(key)
            count, _, left_s = pipeline.execute()
        except redis.RedisError as error:
            log.warning("throttle_down", error=type(error).__name__)
            return None
        return count, left_s

    def key(self, request: Request) -> str:
        """Return where Valkey keeps the count of this user or address."""
        who = f"user:{request.user.pk}" if request.user.pk else f"at:{self.get_ident(request)}"
        return f"skep:rate:{self.name}:{who}"

    def too_many(self, left_s: int) -> TooMany:
        """Return the refusal, which says when to ask again."""
        message = f"More than {self.most} such requests in a minute; try again in {left_s} s."
        return TooMany(message, retry_after_s=max(left_s, 1), most=self.most)


class Searches(PerMinute):
    """Texts that are looked for in names and logs."""

    name = "search"
    most = 300
    parameters: tuple[str, ...] = ("search", "target", "q")


class Scans(Searches):
    """Requests that read as much as a search, whatever their parameters; counted with those."""

    parameters = ()


class Exports(PerMinute):
    """Whole tables as files."""

    name = "export"
    most = 30


class Guesses(PerMinute):
    """Secrets that were wrong, sent by clients without a login: links that reset a password, join
    tokens. For views that are `CountsGuesses`."""

    name = "guess"
    most = 120

    def key(self, request: Request) -> str:
        """Return where the count of an address is kept. Who asks does not matter, and is not known
        where the login itself was refused."""
        return f"skep:rate:{self.name}:at:{self.get_ident(request)}"

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Raises TooMany after too many wrong secrets, for right ones, too: they would show which
        guess is right. Counts nothing, as a request is a guess only once it has failed.

        Requests that are answered at the same time may exceed the limit by their number. A count
        before the answer would be exact, but would refuse nodes that join at the same time."""
        key = self.key(request)
        try:
            pipeline = valkey().pipeline()
            pipeline.get(key)
            pipeline.ttl(key)
            count, left_s = pipeline.execute()
        except redis.RedisError as error:
            log.warning("throttle_down", error=type(error).__name__)
            return True
        if int(count or 0) >= self.most:
            raise self.too_many(left_s)
        return True

    def too_many(self, left_s: int) -> TooMany:
        """Return the refusal, which says when to ask again."""
        message = f"{self.most} requests failed in a minute; try again in {left_s} s."
        return TooMany(message, retry_after_s=max(left_s, 1), most=self.most)


class CountsGuesses(APIView):
    """A view that takes a secret from anybody, limited by how many of its requests fail. Right
    secrets do not count: all nodes of a data centre may join from one address."""

    throttle_classes = (Guesses,)

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        """Count a refused request, unless it was refused by a limit."""
        if 400 <= response.status_code < 500 and response.status_code != 429:
            Guesses().count(request)
        return super().finalize_response(request, response, *args, **kwargs)


class Recoveries(PerMinute):
    """Requests for a link that resets a forgotten password, which is sent by e-mail."""

    name = "recovery"
    most = 10


class DeviceLogins(PerMinute):
    """Programs that begin to log in by a browser."""

    name = "device-login"
    most = 20


class DevicePolls(PerMinute):
    """Programs that wait to be allowed: all users behind one address."""

    name = "device-poll"
    most = 600


class DeviceCodes(PerMinute):
    """Short codes of such programs that a user types: few, so that none is guessed."""

    name = "device-code"
    most = 20
