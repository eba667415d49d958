"""`skep audit`: who did what to whom, from where."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.common import Json, VcName, client, local_time, print_json, print_table

if TYPE_CHECKING:
    from skep_client.models import AuditEntry

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
Moment = Annotated[str, typer.Option(metavar="TIME", help="As 7d, 12h, 2026-11-01 or ISO 8601.")]


def add_to(app: typer.Typer) -> None:
    app.command("audit")(audit)


def audit(
    actor: Annotated[str, typer.Option(help="Name of the user who did it.")] = "",
    action: Annotated[
        str, typer.Option(help="Action or its beginning, such as vc.quota; comma list.")
    ] = "",
    target: Annotated[str, typer.Option(help="Part of the name of what it was done to.")] = "",
    target_type: Annotated[str, typer.Option(help="Such as user, vc, job or node.")] = "",
    outcome: Annotated[str, typer.Option(help="done or refused.")] = "",
    vc: VcName = "",
    address: Annotated[str, typer.Option(help="Address of the client.")] = "",
    since: Moment = "",
    until: Moment = "",
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="Entries to show; exports have all.")
    ] = 50,
    as_csv: Annotated[bool, typer.Option("--csv", help="Export all of them as CSV.")] = False,
    as_lines: Annotated[
        bool, typer.Option("--jsonl", help="Export all of them, a JSON object in each line.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show who changed what, newest first: all entries to admins, those of their virtual clusters
    to VC admins, and your own to you."""
    filters: dict[str, Any] = {
        "actor": actor,
        "action": action,
        "target": target,
        "target_type": target_type,
        "outcome": outcome,
        "virtual_cluster": vc,
        "address": address,
        "since": moment(since),
        "until": moment(until),
    }
    filters = {name: value for name, value in filters.items() if value}
    with client() as skep:
        if as_csv or as_lines:
            for piece in skep.export_audit(format="csv" if as_csv else "jsonl", **filters):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        found = list(islice(skep.audit(limit=min(number, 500), **filters), number))
    if as_json:
        print_json(found)
        return
    print_table(
        ("TIME", "ACTOR", "ACTION", "TARGET", "VC", "ADDRESS", "CHANGE"),
        [_row(entry) for entry in found],
        cut_last=True,
    )


def moment(text: str, now: datetime | None = None) -> str:
    """Return a time in ISO 8601 with its zone; "7d" is so long before `now`. Raises
    BadParameter."""
    if not text:
        return ""
    if found := re.fullmatch(r"(\d{1,6})([mhdw])", text):
        back = timedelta(**{UNITS[found[2]]: int(found[1])})
        return ((now or datetime.now(UTC)) - back).isoformat()
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        message = f"{text!r} is no time: write 7d, 12h, 2026-11-01 or 2026-11-01T09:00."
        raise typer.BadParameter(message) from None


def _row(entry: AuditEntry) -> tuple[str, ...]:
    action = entry.action if entry.outcome == "done" else f"{entry.action} (refused)"
    actor = (entry.actor.name or f"({entry.actor.kind})") if entry.actor else ""
    target = f"{entry.target.type} {entry.target.name or entry.target.id}" if entry.target else ""
    by = f"{actor} by {entry.token.name}" if entry.token else actor
    return (
        local_time(entry.at),
        by,
        action,
        target.strip(),
        entry.virtual_cluster,
        entry.address,
        _change(entry),
    )


def _change(entry: AuditEntry) -> str:
    before, after = entry.before or {}, entry.after or {}
    names = [*after, *(name for name in before if name not in after)]
    parts = [f"{name}: {before[name]} → {after.get(name)}" if name in before
             else f"{name}: {after[name]}" for name in names]  # fmt: skip
    return ", ".join([*parts, *(f"{name}: {value}" for name, value in entry.facts.items())])
