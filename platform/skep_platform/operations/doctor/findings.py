"""What the doctor finds: a sentence, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from skep_platform.core import failures

log = structlog.get_logger(__name__)
T = TypeVar("T")

OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"
SEVERITIES = (ERROR, WARNING, NOTE, OK)


@dataclass(frozen=True, slots=True)
class Finding:
    """`severity`: "error" is broken, "warning" will be, "note" is worth knowing; "ok" says what
    was looked at. `code` is stable."""

    code: str
    severity: str
    message: str
    action: str = ""
    details: dict[str, Any] = field(default_factory=dict)


Check = Callable[[], Iterable[Finding]]


def ok(message: str, **details: Any) -> Finding:
    return Finding("ok", OK, message, details=details)


def note(code: str, message: str, action: str, **details: Any) -> Finding:
    return Finding(code, NOTE, message, action, details)


def warning(code: str, message: str, action: str, **details: Any) -> Finding:
    return Finding(code, WARNING, message, action, details)


def error(code: str, message: str, action: str, **details: Any) -> Finding:
    return Finding(code, ERROR, message, action, details)


def examine(check: Check) -> list[Finding]:
    """Return what a check found, the worst first; its "ok" only where there is nothing worse. A
    check that fails is an error itself, and hides no other one."""
    try:
        found = list(check())
    except Exception as failure:
        log.warning("doctor_check_failed", check=check.__name__, error=str(failure)[:300])
        what = f"{type(failure).__name__}: {failure}"[:300]
        action = "Look at the findings about the database and Redis first; else report it."
        found = [error("check_failed", f"It could not be checked ({what}).", action)]
        failures.leave_broken(failure)
    worse = [one for one in found if one.severity not in (OK, NOTE)]
    notes = [one for one in found if one.severity == NOTE]
    fine = [one for one in found if one.severity == OK]
    return sorted(worse, key=lambda one: SEVERITIES.index(one.severity)) + (
        notes if worse else [*fine, *notes]
    )


def at_once(probes: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Run probes of the network beside each other, none of which uses the database."""
    with ThreadPoolExecutor(8, "doctor") as pool:
        yield from pool.map(lambda probe: probe(), list(probes))


def names(found: Iterable[str], most: int = 5) -> str:
    """Return the first of these names, and how many more there are."""
    known = list(found)
    more = len(known) - most
    return ", ".join(known[:most]) + (f" and {more} more" if more > 0 else "")
