"""What a request is, and how its parameters are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from skep_client.archives import Body
from skep_client.errors import SkepError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """`repeatable`: sending it twice changes nothing more than sending it once; `outage_s`: for so
    long it is repeated while the server is away, after the few retries of every call; `gone`: what
    a DELETE answers whose first answer was lost, where it is more than nothing."""

    method: str
    path: str  # below `root`
    answer: type[T] | None
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    content: bytes | Body | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    root: str = "/api/v1/"
    timeout_s: float = 30.0  # without a byte
    outage_s: float = 0.0
    gone: T | None = None


OUTAGE_S = 900.0  # for which what follows a job tries again


def following(call: Call[T], outage_s: float = OUTAGE_S) -> Call[T]:
    """Return the call for what follows a job: it outlasts a restart or an outage of the server."""
    return replace(call, outage_s=outage_s)


def named(name: str) -> str:
    """Return a name as one part of a path. Raises SkepError for what names nothing."""
    if not name or "/" in name or set(name) == {"."}:
        raise SkepError(404, "not_found", f"Nothing can be named {name!r}.")
    return quote(name, safe="@+")


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that were given; lists become comma lists."""
    return {
        name: ",".join(value) if isinstance(value, list | tuple) else value
        for name, value in params.items()
        if value is not None and value != [] and value != ""
    }
