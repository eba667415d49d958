"""Limits failed logins per address and user name, so that passwords cannot be guessed.

Counted before the password is looked at: parallel guesses see each other. A user name alone is not
limited, or anybody could lock anybody out.
"""

from __future__ import annotations

import hashlib
from typing import cast

import redis
import structlog
from django.http import HttpRequest
from rest_framework.request import Request

from skep_platform.core.errors import TooMany
from skep_platform.core.notifications import valkey
from skep_platform.core.throttling import Clients

log = structlog.get_logger(__name__)

WINDOW_S = 60
PER_USER = 10  # failures per window from one address for one user name
PER_ADDRESS = 50
CODES = 20  # wrong codes of one user per CODES_WINDOW_S, from all addresses
CODES_WINDOW_S = 3600


def address(request: Request | HttpRequest) -> str:
    """Return by what the attempts of a client are counted: its address, or its network of IPv6."""
    return Clients().get_ident(cast(Request, request))


class Attempt:
    """One attempt to log in from `address` as `username`."""

    def __init__(self, address: str, username: str) -> None:
        name = hashlib.sha256(username.casefold().encode("utf-8", "replace")).hexdigest()[:32]
        self.limits = {
            f"skep:login:{address}:{name}": PER_USER,
            f"skep:login:{address}": PER_ADDRESS,
        }

    def count(self) -> None:
        """Raises TooMany. Lets everybody try while Valkey is down: an admin must get in then."""
        try:
            counts = self._increment()
        except redis.RedisError as error:
            log.warning("login_throttle_down", error=type(error).__name__)
            return
        if any(n > limit for n, limit in zip(counts, self.limits.values(), strict=True)):
            message = f"Too many failed logins; try again in {WINDOW_S} seconds."
            raise TooMany(message, code="throttled", retry_after_s=WINDOW_S)

    def forgive(self) -> None:
        """The attempt succeeded: it does not count, and neither do the failures before it."""
        pair, address = self.limits
        try:
            pipeline = valkey().pipeline()
            pipeline.delete(pair)
            pipeline.decr(address)
            pipeline.expire(address, WINDOW_S, nx=True)
            pipeline.execute()
        except redis.RedisError as error:
            log.warning("login_throttle_down", error=type(error).__name__)

    def _increment(self) -> list[int]:
        pipeline = valkey().pipeline()
        for key in self.limits:
            pipeline.incr(key)
            pipeline.expire(key, WINDOW_S, nx=True)
        return pipeline.execute()[::2]


class Codes:
    """One guess of a second factor. It needs the password first, so that the limit may be the
    user's: only who knows the password can lock the user out."""

    def __init__(self, user_id: int) -> None:
        self.key = f"skep:mfa:{user_id}"

    def count(self) -> None:
        """Raises TooMany. Counts nothing while Valkey is down, as `Attempt` does."""
        try:
            pipeline = valkey().pipeline()
            pipeline.incr(self.key)
            pipeline.expire(self.key, CODES_WINDOW_S, nx=True)
            guesses = int(pipeline.execute()[0])
        except redis.RedisError as error:
            log.warning("login_throttle_down", error=type(error).__name__)
            return
        if guesses > CODES:
            message = f"More than {CODES} wrong codes; try again in an hour, or ask an admin."
            raise TooMany(message, code="throttled", retry_after_s=CODES_WINDOW_S)

    def forgive(self) -> None:
        """A code was right: none of the guesses before it counts."""
        try:
            valkey().delete(self.key)
        except redis.RedisError as error:
            log.warning("login_throttle_down", error=type(error).__name__)
