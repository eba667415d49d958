"""`skep usage`, `skep report`, `skep budget`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import Json, client, print_json, print_table, say

if TYPE_CHECKING:
    from skep_client.models import Budget, Report, ReportUser, Sums, UsageRow

HEADS = ("ALLOCATED", "GUARANTEED", "BORROWED", "USED", "IDLE", "UTILISATION")
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV; times are GPU-seconds.")]
VcName = Annotated[str, typer.Argument(metavar="VC", help="Name of a virtual cluster.")]


def add_to(app: typer.Typer) -> None:
    app.command()(usage)
    app.command()(report)
    app.command()(budget)


def usage(
    by: Annotated[
        str,
        typer.Option(help="Up to 3 of day, month, vc, user, group, job, gpu_model, class."),
    ] = "day",
    vc: Annotated[str, typer.Option(help="Only of this virtual cluster.")] = "",
    user: Annotated[str, typer.Option(help="Only of this user.")] = "",
    name: Annotated[
        str, typer.Option(help="Only rows whose name, of the first of --by, contains this.")
    ] = "",
    since: Annotated[
        str, typer.Option(help="First day (UTC), such as 2026-11-01, or 30d: the last 30 days.")
    ] = "30d",
    until: Annotated[str, typer.Option(help="Last day (UTC). Default: today.")] = "",
    order: Annotated[
        str, typer.Option(help="One of --by, or allocated, used, idle; -idle: the most first.")
    ] = "",
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Show GPU-hours that were allocated, used and idle.

    You see your own, those of virtual clusters whose admin you are, and as a platform admin all."""
    asked = {
        "by": by,
        "vc": vc or None,
        "user": user or None,
        "name": name or None,
        "since": first_day(since),
        "until": until or None,
        "order": order or None,
    }
    with client() as skep:
        if as_csv:
            say(skep.export_usage(asked), end="")
            return
        rows = list(skep.usage(**asked, limit=1000))
    if as_json:
        print_json(rows)
        return
    names = list(dict.fromkeys(by.split(",")))
    print_table(
        (*(name.upper().replace("_", " ") for name in names), *HEADS),
        [(*(_name(row, name) for name in names), *_sums(row)) for row in rows],
    )


def report(
    vc: VcName,
    month: Annotated[str, typer.Option(help="Such as 2026-11. Default: this month (UTC).")] = "",
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Report a month of a virtual cluster: its GPU-hours and how well its users used them."""
    with client() as skep:
        if as_csv:
            say(skep.export_report(vc, month), end="")
            return
        found = skep.report(vc, month)
    if as_json:
        print_json(found)
        return
    _print_report(found)


def budget(
    vc: VcName,
    hours: Annotated[
        str,
        typer.Argument(help="Guaranteed GPU-hours a month; none: without a limit (admin)."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Show or set how many guaranteed GPU-hours a virtual cluster may use in a month."""
    with client() as skep:
        if not hours:
            found = skep.budget(vc)
        elif hours == "none":
            found = skep.remove_budget(vc)
        elif hours.isascii() and hours.isdecimal():
            found = skep.set_budget(vc, int(hours))
        else:
            raise typer.BadParameter("HOURS is a whole number, or none.")
    if as_json:
        print_json(found)
    else:
        _print_budget(vc, found)


def first_day(text: str, today: date | None = None) -> str:
    """Return the first day of a span that is given as a day, or as the number of its days with a
    "d". Raises BadParameter."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return text
    if not re.fullmatch(r"[1-9]\d{0,3}d", text, re.ASCII):
        raise typer.BadParameter("--since is a day, such as 2026-11-01, or a number of days: 30d.")
    days = timedelta(days=int(text[:-1]) - 1)
    return str((today or datetime.now(UTC).date()) - days)


def _name(row: UsageRow, dimension: str) -> str:
    if dimension == "job":
        return (row.job.name if row.job else "") or "older jobs"
    return str(getattr(row, "class_" if dimension == "class" else dimension, ""))


def _sums(row: Sums | UsageRow | ReportUser) -> tuple[str, ...]:
    seconds = (row.allocated_s, row.guaranteed_s, row.borrowed_s, row.used_s, row.idle_s)
    percent = "" if row.utilization is None else f"{row.utilization:g} %"
    return (*(_hours(value) for value in seconds), percent)


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:,.1f}"


def _print_report(found: Report) -> None:
    say(f"{found.vc}, {found.since} to {found.until}: GPU-hours")
    if found.total is not None:
        print_table(HEADS, [_sums(found.total)])
    if found.owned_s is not None and found.lent_s is not None:
        share = "" if found.quota_share is None else f", used {found.quota_share:g} % of it"
        say(f"Owned {_hours(found.owned_s)}{share}; lent {_hours(found.lent_s)}.")
    waited = found.waiting
    if waited is not None and waited.p50_s is not None:
        say(f"Half of {waited.jobs} jobs waited at most {waited.p50_s} s, 95 % {waited.p95_s} s.")
    if found.budget is not None:
        _print_budget(found.vc, found.budget)
    if found.users:
        say()
        rows = [(each.user, _asked(each), *_sums(each)) for each in found.users]
        print_table(("USER", "EFFICIENCY", *HEADS), rows)
    if found.idle_jobs:
        say()
        idle = [
            (job.job.name if job.job else "", job.user, job.gpus, _hours(job.idle_s))
            for job in found.idle_jobs
        ]
        print_table(("MOST IDLE", "USER", "GPUS", "IDLE"), idle)


def _asked(row: ReportUser) -> str:
    asked = "" if row.gpus is None else f"asked {row.gpus:g}, "
    return asked + ("use unknown" if row.utilization is None else f"used {row.utilization:g} %")


def _print_budget(vc: str, found: Budget) -> None:
    if found.gpu_hours is None:
        say(f"{vc} has no budget: it may use any number of guaranteed GPU-hours.")
        return
    used = f"{_hours(found.used_s)} of {found.gpu_hours:,} guaranteed GPU-hours"
    percent = "" if found.percent is None else f" ({found.percent:g} %)"
    say(f"{vc} used {used} in {found.month}{percent}.")
    if found.message:
        say(found.message)
