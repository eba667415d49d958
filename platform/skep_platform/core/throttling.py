"""Limits on requests that cost much, or that guess secrets: so many a minute for each user, and for
each address of clients that are not logged in. Set on a view by `throttle_classes`.

Logins have limits of their own (`accounts.throttle`), and so have submits, checks and uploads.
"""

from __future__ import annotations

import redis
import structlog
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from skep_platform.core.errors import TooMany
from skep_platform.core.notifications import valkey

log = structlog.get_logger(__name__)

WINDOW_S = 60


class PerMinute(BaseThrottle):
    """Counts requests under `name`. With `parameters`, only those that have one of them in their
    address: a list is cheap, and a search in it is not."""

    name = ""
    most = 0
    parameters: tuple[str, ...] = ()

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Raises TooMany. Lets everybody ask while Valkey is down."""
        if self.parameters and not any(map(request.query_params.get, self.parameters)):
            return True
        who = f"user:{request.user.pk}" if request.user.pk else f"at:{self.get_ident(request)}"
        key = f"skep:rate:{self.name}:{who}"
        try:
            pipeline = valkey().pipeline()
            pipeline.incr(key)
            pipeline.expire(key, WINDOW_S, nx=True)
            pipeline.ttl(key)
            count, _, left_s = pipeline.execute()
        except redis.RedisError as error:
            log.warning("throttle_down", error=type(error).__name__)
            return True
        if count > self.most:
            message = f"More than {self.most} such requests in a minute; try again in {left_s} s."
            raise TooMany(message, retry_after_s=max(left_s, 1), most=self.most)
        return True


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
    """Secrets that clients without a login send: links that reset a password, join tokens. High
    enough for a rack of nodes that join at once."""

    name = "guess"
    most = 120


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
