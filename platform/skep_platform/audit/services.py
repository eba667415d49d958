"""All writes to the audit log: entries, the partitions they lie in, and retention."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from skep_jobfile.plain import plain, plain_data
from skep_platform.audit.actions import ACTIONS
from skep_platform.audit.models import AuditEntry, Outcome, first_id_at, time_of
from skep_platform.core import caller
from skep_platform.core.bulk import deletion_time, fetch, new
from skep_platform.core.database import months
from skep_platform.core.logs import MASK, SECRET_NAME, SECRET_TEXT
from skep_platform.core.models import uuid7

MAX_VALUE_BYTES = 16 * 1024  # of `before`, `after` and `facts` each, as JSON
TABLE, DEFAULT = "audit_entry", "audit_entry_default"
# Names of fields that hold secrets, beside those that the logs mask: "ssh_key", "privateKey".
KEY_NAME = re.compile(
    r"(?:^|[_\W])(?:keys?|private|passphrase)(?:$|[_\W])|[a-z]Keys?(?![a-z])", re.ASCII
)


class NamedVc(Protocol):
    """What an entry records of a virtual cluster."""

    @property
    def pk(self) -> Any: ...
    @property
    def name(self) -> Any: ...


def record(
    action: str,
    target_type: str,
    target_id: object = "",
    target_name: str = "",
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    vc: NamedVc | None = None,
    outcome: str = Outcome.DONE,
    **facts: Any,
) -> None:
    """Write one entry about what the present caller (`core.caller`) does to a target.

    Call it inside the transaction of the change, so that both are stored or neither is. `action` is
    a name in `ACTIONS`. Of `before` and `after` only what differs is stored. `vc` makes the entry
    visible to the VC admins of it. `facts` are further values as JSON has them.
    Values of fields that hold secrets are masked. Raises KeyError for an unknown action."""
    entry(
        action,
        target_type,
        target_id,
        target_name,
        before=before,
        after=after,
        vc=vc,
        outcome=outcome,
        **facts,
    ).save(force_insert=True)


def entry(
    action: str,
    target_type: str,
    target_id: object = "",
    target_name: str = "",
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    vc: NamedVc | None = None,
    outcome: str = Outcome.DONE,
    **facts: Any,
) -> AuditEntry:
    """Return an entry that is not stored, for `bulk_create` by code that changes many rows; see
    `record`."""
    _ = ACTIONS[action]
    who, entry_id = caller.current(), uuid7()
    if before is not None and after is not None:
        before, after = _differing(before, after)
    return new(
        AuditEntry,
        id=entry_id,
        at=time_of(entry_id),
        action=action,
        outcome=Outcome(outcome),
        actor_kind=who.kind,
        actor_id=who.user_id,
        actor_name=plain(who.username)[:255],
        token_id=who.token_id,
        token_name=plain(who.token_name)[:100],
        token_scope=who.scope,
        address=who.address[:64],
        user_agent=plain(who.user_agent),
        request_id=who.request_id[:64],
        target_type=target_type,
        target_id=str(target_id)[:64],
        target_name=_text(target_name),
        vc_id=vc.pk if vc is not None else None,
        vc_name=vc.name if vc is not None else "",
        before=_stored(before),
        after=_stored(after),
        facts=_stored(facts),
    )


def _differing(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    missing = object()
    names = [
        name
        for name in (*before, *(name for name in after if name not in before))
        if before.get(name, missing) != after.get(name, missing)
    ]
    return (
        {name: before[name] for name in names if name in before},
        {name: after[name] for name in names if name in after},
    )


def masked(value: Any, name: str = "", *, secret: bool = False) -> Any:
    """Return a copy of JSON data without secrets: texts in fields of such a name or below one
    (`secret`), and whatever looks like a credential in other texts. `name` is the field that holds
    the value. Numbers and booleans stay; they are counts and switches, such as `keep_tokens`."""
    secret = secret or bool(SECRET_NAME.search(name) or KEY_NAME.search(name))
    if isinstance(value, Mapping):
        return {key: masked(child, str(key), secret=secret) for key, child in value.items()}
    if isinstance(value, list):
        return [masked(child, secret=secret) for child in value]
    if isinstance(value, str) and value:
        return MASK if secret else SECRET_TEXT.sub(MASK, value)
    return value


def _text(value: str) -> str:
    return plain(str(masked(value)))[:255]


def _stored(value: Mapping[str, Any] | None) -> Any:
    """Return data as the table has it: without secrets and control characters, and bounded."""
    if value is None:
        return None
    clean = plain_data(masked(_json(value)))
    size = len(json.dumps(clean))
    if size <= MAX_VALUE_BYTES:
        return clean
    # Short values say most: names and numbers stay, long texts and lists are left out.
    short = {name: child for name, child in clean.items() if len(json.dumps(child)) <= 256}
    return {**dict(list(short.items())[:32]), "truncated_bytes": size}


def _json(value: Any) -> Any:
    """Return a value in types that JSON has. Raises TypeError for one that has no such form."""
    if isinstance(value, Mapping):
        return {str(key): _json(child) for key, child in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_json(child) for child in value), key=str)
    if isinstance(value, list | tuple):
        return [_json(child) for child in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} is no value of an audit entry")


def add_months() -> int:
    """Create the partitions of this month and the next ones. Returns how many were missing."""
    return months.add(TABLE, timezone.now(), months.MONTHS_AHEAD, ADD_MONTH)


# A month with entries outside of all months stays there: that is seen without a lock of all.
ADD_MONTH = """
SELECT CASE WHEN EXISTS (
           SELECT FROM audit_entry_default
            WHERE id >= audit_first_id(%(at)s::timestamptz)
              AND id < audit_first_id(date_trunc('month', %(at)s::timestamptz + '40 days', 'UTC')))
       THEN false ELSE audit_add_month(%(at)s::timestamptz) END
"""


def drop_old_months() -> list[str]:
    """Drop the partitions whose entries are all older than `SKEP_AUDIT_RETENTION_DAYS` (0: none).
    Returns their names. This needs short exclusive locks; when the table is busy, the next run does
    it."""
    days = settings.SKEP_AUDIT_RETENTION_DAYS
    if days <= 0:
        return []
    cutoff = deletion_time() - timedelta(days=days)
    old = [part.name for part in months.parts(TABLE) if part.until <= cutoff]
    is_over = partial(_is_over, first_id_at(cutoff))
    return [
        name
        for name in (*old, DEFAULT)
        if months.drop(TABLE, name, is_over, partial(_record_drop, name))
    ]


def _is_over(cutoff: UUID, name: str) -> bool:
    """Return whether no entry of a partition is kept; those of a month are all before its end."""
    if name != DEFAULT:
        return True
    newest = fetch("SELECT id FROM audit_entry_default ORDER BY id DESC LIMIT 1")
    return bool(newest) and newest[0][0] < cutoff


def _record_drop(name: str) -> None:
    if name == DEFAULT:
        fetch("SELECT audit_add_default()")
    record("audit.drop", "audit", name, name)
