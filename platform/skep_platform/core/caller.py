"""Who is behind the work that a thread or an asyncio task does now: what the audit log records.

A context variable holds it, so that services need no parameter for it. The middleware opens it for
each HTTP request and the gateway for each socket; outside of these, in Celery tasks and management
commands, the caller is the system.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

Kind = Literal["user", "anonymous", "node", "system"]
MAX_USER_AGENT = 200  # characters


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller. `user_id` and `username` are those of a user; the `token_` fields and `scope` are
    empty for a session; `address` is the client's, behind trusted proxies."""

    kind: Kind = "anonymous"
    user_id: int | None = None
    username: str = ""
    token_id: UUID | None = None
    token_name: str = ""
    scope: str = ""
    address: str = ""
    user_agent: str = ""
    request_id: str = ""


SYSTEM = Caller(kind="system")

_current: ContextVar[Caller] = ContextVar("skep_caller", default=SYSTEM)


def current() -> Caller:
    """Return the caller of the present request or socket, or SYSTEM outside of these."""
    return _current.get()


@contextmanager
def calling(address: str = "", user_agent: str = "", request_id: str = "") -> Iterator[None]:
    """Make an unknown client at this address the caller within the block; see `identify`."""
    unknown = Caller(address=address, user_agent=user_agent[:MAX_USER_AGENT], request_id=request_id)
    before = _current.set(unknown)
    try:
        yield
    finally:
        _current.reset(before)


def identify(user: Any, token: Any = None) -> None:
    """Record the user, and the API token if there is one, by whom the present request or socket is
    authenticated. Does nothing outside of `calling`: the system stays the system."""
    if current().kind == "system":
        return
    known = replace(current(), kind="user", user_id=user.pk, username=user.get_username())
    if token is not None:
        known = replace(
            known, token_id=token.public_id, token_name=token.name, scope=str(token.scope)
        )
    _current.set(known)


def identify_node(name: str) -> None:
    """Record the node by whose credential the present request is authenticated."""
    if current().kind != "system":
        _current.set(replace(current(), kind="node", username=name))
