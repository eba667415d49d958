"""Recording of refused writing requests, behind every view of the API."""

from __future__ import annotations

import re
from typing import Any

import redis
import structlog
from django.db import DatabaseError, transaction
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from skep_platform.audit import services
from skep_platform.audit.actions import ACTION_OF_ROUTE, ACTIONS, NOT_RECORDED
from skep_platform.audit.models import Outcome
from skep_platform.core import api, caller, ports
from skep_platform.core.notifications import valkey

log = structlog.get_logger(__name__)
REFUSED = frozenset({401, 403, 404, 429})
# Without a credential nothing was attempted by anyone; `mfa_required` asks for the second half of a
# login; a failed login has an entry already.
NOT_ATTEMPTS = frozenset(
    {"not_authenticated", "login_failed", "mfa_required", "mfa_code_wrong", "key_refused"}
)
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")  # of a route, with its converter
PER_MINUTE = 60  # entries of one user or address


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Render an error as `core.api.exception_handler` does, and record a refused write."""
    response = api.exception_handler(error, context)
    request = context.get("request")
    if response is not None and request is not None and _is_refused(request, response):
        try:
            with transaction.atomic():
                record_refusal(request, response.status_code, str(response.data["code"]))
        except DatabaseError as failure:
            log.warning("refusal_not_recorded", error=type(failure).__name__)
    return response


def _is_refused(request: Request, response: Response) -> bool:
    return (
        request.method not in SAFE_METHODS
        and response.status_code in REFUSED
        and response.data.get("code") not in NOT_ATTEMPTS
    )


def record_refusal(request: Request, status: int, code: str) -> None:
    """Record a request that was refused, under the action of its route; see `record`."""
    route = route_of(request)
    if route in NOT_RECORDED:
        return
    found = request.resolver_match
    values = {name: str(value) for name, value in (found.kwargs if found else {}).items()}
    action = ACTION_OF_ROUTE.get(route, "request.refused")
    facts: dict[str, Any] = {"code": code, "status": status, "route": route}
    if len(values) > 1:
        facts["parameters"] = values
    target = next(reversed(values.values()), "")
    record(action, ACTIONS[action].target_type, target, _vc(route, values), facts)


def record(
    action: str, target_type: str, target: str, vc: _Named | None, facts: dict[str, Any]
) -> None:
    """Record a refused attempt. Of one user or address at most PER_MINUTE a minute are recorded,
    so that no one fills the table."""
    left = _left()
    if left < 0:
        return
    if left == 0:
        facts = {**facts, "further_ones_not_recorded_s": 60}
    outcome = Outcome.REFUSED
    services.record(action, target_type, target, target, vc=vc, outcome=outcome, **facts)


def route_of(request: Request) -> str:
    """Return "METHOD path" of the route that answers a request, as in `ACTIONS`."""
    found = request.resolver_match
    path = PARAMETER.sub(r"<\1>", found.route if found else request.path)
    return f"{request.method} {path.removeprefix('api/v1/')}"


class _Named:
    def __init__(self, pk: Any, name: str) -> None:
        self.pk = pk
        self.name = name


def _vc(route: str, values: dict[str, str]) -> _Named | None:
    if not route.split(" ")[1].startswith("virtual-clusters/<name>"):
        return None
    name = values["name"]
    found = ports.vc_ids.call([name])
    return _Named(found[name], name) if name in found else None


def _left() -> int:
    """Return how many more refusals of the present caller are recorded in this minute."""
    who = caller.current()
    key = f"skep:audit-refused:{who.user_id or who.address}"
    try:
        pipeline = valkey().pipeline()
        pipeline.incr(key)
        pipeline.expire(key, 60, nx=True)
        return PER_MINUTE - int(pipeline.execute()[0])
    except redis.RedisError as error:
        log.warning("refusals_not_counted", error=type(error).__name__)
        return PER_MINUTE
