"""How many sockets a process keeps: of strangers, of an address, of a user.

Counted in each process. What they protect is memory and the threads that look credentials up: an
open socket holds no database connection."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager

from skep_platform.gateway.socket import Refusal

CLOSE_TOO_MANY = 4429
CLOSE_UNAUTHORIZED = 4401
AUTHENTICATED_S = 10.0  # in which a stranger is known, or goes


class Seats:
    """`strangers`: sockets at once whose credential is being looked up, of one address and of all.
    Further ones of the same address, or user, are refused until others end."""

    def __init__(
        self, *, strangers: int, all_strangers: int, of_address: int, of_user: int
    ) -> None:
        self.strangers = strangers
        self.all_strangers = all_strangers
        self.of_address = of_address
        self.of_user = of_user
        self._strangers: Counter[Hashable] = Counter()
        self._taken: Counter[Hashable] = Counter()

    @asynccontextmanager
    async def stranger(self, address: str) -> AsyncIterator[None]:
        """While it is found out who this is. Raises Refusal."""
        if self._strangers.total() >= self.all_strangers:
            message = f"{self.all_strangers} connections are being authenticated; try again."
            raise Refusal("too_many_connections", message, CLOSE_TOO_MANY)
        if self._strangers[address] >= self.strangers:
            message = f"At most {self.strangers} connections of an address at once that are not "
            raise Refusal("too_many_connections", message + "logged in yet.", CLOSE_TOO_MANY)
        with _counted(self._strangers, address):
            try:
                async with asyncio.timeout(AUTHENTICATED_S):
                    yield
            except TimeoutError:
                message = f"The credential was not checked within {AUTHENTICATED_S:g} s; try again."
                raise Refusal("not_authenticated_in_time", message, CLOSE_TOO_MANY) from None

    @contextmanager
    def taken(self, address: str, user_id: object) -> Iterator[None]:
        """While somebody known is connected. Raises Refusal."""
        seats = (("address", address, self.of_address), ("user", user_id, self.of_user))
        for whose, name, most in seats:
            if self._taken[whose, name] >= most:
                message = f"At most {most} connections of one {whose} at once."
                raise Refusal("too_many_connections", message, CLOSE_TOO_MANY)
        with (
            _counted(self._taken, ("address", address)),
            _counted(self._taken, ("user", user_id)),
        ):
            yield


@contextmanager
def _counted(counter: Counter[Hashable], key: Hashable) -> Iterator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


# Pages and shells share an address behind a proxy that SKEP_TRUSTED_PROXIES does not count.
people = Seats(strangers=64, all_strangers=256, of_address=2048, of_user=64)
# Agents come back all at once, and many of them from one address.
agents = Seats(strangers=5000, all_strangers=5000, of_address=100_000, of_user=2)
