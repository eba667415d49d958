"""Changing who owns which cells: checked first, then all at once.

The check looks at the scheduler's world, which takes its time on a large cluster, so it comes
before the transaction; the revision tells whether anything else was changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.cells import assignment, checking
from skep_platform.cells.assignment import Body
from skep_platform.cells.checking import Verdict
from skep_platform.cluster import layouts
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.scheduling import read_inventory
from skep_platform.tenancy import claims
from skep_platform.tenancy.changes import Claims
from skep_scheduler import inventory
from skep_scheduler.facts import Inventory


class DoesNotFit(SkepError):
    """`errors` in the details has every reason."""

    code = "cells_do_not_fit"


def check(body: Body) -> Verdict:
    """What `assign` would do."""
    return _check(layouts.current().revision, body)


def assign(user: User, body: Body) -> Verdict:
    """Raises Conflict `revision_stale`, and DoesNotFit with all errors."""
    revision = layouts.current().revision
    if body["revision"] != revision:
        raise _stale(revision)
    verdict = fitting(_check(revision, body))
    wanted = assignment.parse(body)
    with transaction.atomic():
        hold(revision)
        claims.replace(user, wanted.virtual_clusters, wanted.pins)
    return verdict | {"revision": layouts.current().revision}


def check_raised(before: Claims) -> None:
    """Within the transaction in which a claim was raised. Raises DoesNotFit."""
    now = read_inventory.inventory(read_inventory.nodes().values())
    vcs, pins = before
    errors = inventory.check(replace(now, virtual_clusters=vcs, pins=pins), now).errors
    if errors:
        raise _does_not_fit([checking.shown(error) for error in errors])


def fitting(verdict: Verdict) -> Verdict:
    """Raises DoesNotFit."""
    if not verdict["fits"]:
        raise _does_not_fit(verdict["errors"])
    return verdict


def hold(revision: int) -> None:
    """Nothing changes until the end of the transaction. Raises Conflict `revision_stale`."""
    claims.lock()
    now = layouts.lock().revision
    if now != revision:
        raise _stale(now)


def _check(revision: int, body: Body) -> Verdict:
    mistakes = assignment.mistakes(body)
    if mistakes:
        return checking.refused(revision, [checking.shown(error) for error in mistakes])
    wanted = assignment.parse(body)

    def change(now: Inventory) -> Inventory:
        return replace(now, virtual_clusters=wanted.virtual_clusters, pins=wanted.pins)

    return checking.check(revision, change)


def _does_not_fit(errors: Sequence[dict[str, Any]]) -> DoesNotFit:
    first, *more = errors
    also = f" (and {len(more)} more)" if more else ""
    return DoesNotFit(first["message"] + also, errors=list(errors))


def _stale(revision: int) -> Conflict:
    message = "Someone else has changed the assignment meanwhile; look at it and try again."
    return Conflict(message, code="revision_stale", revision=revision)
