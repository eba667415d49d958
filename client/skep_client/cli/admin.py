"""`skep admin`: the platform itself, for its administrators."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client import exits
from skep_client.cli.common import (
    Json,
    client,
    console,
    given_fields,
    local_time,
    print_json,
    print_table,
    say,
    say_deleted,
)
from skep_client.errors import SkepError
from skep_client.loglines import plain

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import AlertRule, Examined, Platform

STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}
Threshold = Annotated[float | None, typer.Option(help="When it fires, in the unit of its kind.")]
Minutes = Annotated[
    int | None, typer.Option("--for", metavar="MINUTES", min=0, help="Met for so long.")
]
Action = Annotated[str | None, typer.Option(help="notify, cordon or stop.")]
Recipients = Annotated[
    list[str] | None, typer.Option("--notify", metavar="USER", help="Default: all admins.")
]
RuleName = Annotated[str, typer.Argument(metavar="RULE", help="Name of a rule.")]


def add_to(app: typer.Typer) -> None:
    admin = typer.Typer(no_args_is_help=True, help="See to the platform itself (admin).")
    for command in (doctor, platform, alerts):
        admin.command()(command)
    admin.command("backups")(list_backups)
    admin.command("backup-made")(backup_made)
    rules = typer.Typer(invoke_without_command=True, help="List and change rules for alerts.")
    rules.callback()(list_rules)
    rules.command("add")(add_rule)
    rules.command("update")(update_rule)
    rules.command("delete")(delete_rule)
    admin.add_typer(rules, name="alert-rules")
    app.add_typer(admin, name="admin")


def doctor(
    checks: Annotated[
        list[str] | None, typer.Argument(metavar="CHECK…", help="Only these; default: all.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: Json = False,
) -> None:
    """Check settings, processes, clocks, database, Redis, queues, stores, backup, agents, drivers,
    GPUs, disks, ports, certificates and registries, and say what to do. Exits with 1 where
    something is an error. Where no server answers: `skep manage skep_doctor` on its machine."""
    with client() as skep:
        found = skep.doctor(*(checks or ()))
    if as_json:
        print_json(found)
    else:
        for examined in found.checks:
            _print_examined(examined)
    severities = {one.severity for examined in found.checks for one in examined.findings}
    if not found.healthy or (strict and "warning" in severities):
        raise typer.Exit(exits.FAILED)


def _print_examined(examined: Examined) -> None:
    from rich.text import Text

    for finding in examined.findings:
        line = Text(f"{finding.severity:<8}", STYLES.get(finding.severity, ""))
        console().print(
            line.append(f"{examined.check:<13} ", "bold").append(plain(finding.message), "")
        )
        if finding.action:
            console().print(Text(f"{'':22}→ {plain(finding.action)}", "dim"))


def platform(as_json: Json = False) -> None:
    """Show processes, queues, database, stores, agents by version, and the last backup."""
    with client() as skep:
        found = skep.platform()
    if as_json:
        print_json(found)
        return
    print_table(("", ""), _facts(found))
    print_table(
        ("PROCESS", "HOST", "VERSION", "SINCE"),
        [
            (p.kind, p.host, p.version, local_time(p.started_at, seconds=False))
            for p in found.processes
        ],
    )


def _facts(found: Platform) -> list[tuple[str, str]]:
    rows = [("Version", found.version)]
    if database := found.database:
        connections = f"{database.connections} of {database.max_connections} connections"
        size = f"{database.bytes >> 20} MiB"
        rows.append(("PostgreSQL", f"{database.version}, {size}, {connections}"))
    redis, backup = found.redis, found.last_backup
    rows.append(("Redis", f"{redis.version}, {redis.bytes >> 20} MiB" if redis else "away"))
    for queue in found.queues:
        lag = f", the oldest for {queue.lag_s:.0f} s" if queue.lag_s else ""
        rows.append((f"Queue {queue.name}", f"{queue.messages} wait{lag}"))
    agents = ", ".join(f"{n} x {version}" for version, n in sorted(found.agents.items()))
    planned = f"planned at {local_time(found.planned_at)}" if found.planned_at else "does not plan"
    made = f"{local_time(backup.at, seconds=False)} {backup.place}" if backup else "none"
    return [*rows, ("Scheduler", planned), ("Agents", agents or "none"), ("Last backup", made)]


def list_backups(as_json: Json = False) -> None:
    """List the backups that were recorded, newest first."""
    with client() as skep:
        found = list(islice(skep.backups(), 50))
    if as_json:
        print_json(found)
        return
    print_table(
        ("TIME", "MIB", "VERSION", "PLACE"),
        [
            (local_time(b.at, seconds=False), (b.bytes or 0) >> 20 or "", b.version, b.place)
            for b in found
        ],
    )


def backup_made(
    place: Annotated[str, typer.Argument(help="Where it lies, for people to read.")],
    size: Annotated[int | None, typer.Option("--bytes", min=0, help="Its size.")] = None,
    as_json: Json = False,
) -> None:
    """Record that a backup was made now, so that a missing one is seen; for whatever backs up a
    PostgreSQL of your own. `skep backup create` does so itself."""
    fields: dict[str, Any] = {} if size is None else {"bytes": size}
    with client() as skep:
        made = skep.record_backup(place, **fields)
    if as_json:
        print_json(made)
    else:
        say(f"Recorded: {made.place}")


def alerts(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also those that are over.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the alerts that rules have raised, newest first."""
    filters = {} if everything else {"active": "true"}
    with client() as skep:
        found = list(islice(skep.alerts(**filters), 200))
    if as_json:
        print_json(found)
        return
    print_table(
        ("SINCE", "RULE", "STATE", "MESSAGE"),
        [
            (
                local_time(a.since, seconds=False),
                a.rule,
                "over" if a.ended_at else "fired" if a.fired_at else "pending",
                f"{a.message} {a.acted}".strip(),
            )
            for a in found
        ],
        cut_last=True,
    )


def list_rules(context: typer.Context, as_json: Json = False) -> None:
    """List the rules for alerts."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.alert_rules())
    if as_json:
        print_json(found)
        return
    print_table(
        ("RULE", "KIND", "THRESHOLD", "MINUTES", "ACTION", "NOTIFIES", "ENABLED"),
        [
            (
                *(r.name, r.kind, f"{r.threshold:g}", r.for_minutes, r.action),
                ", ".join(r.recipients) or "all admins",
                "yes" if r.enabled else "",
            )
            for r in found
        ],
    )


def add_rule(
    name: RuleName,
    kind: Annotated[
        str,
        typer.Argument(
            help="idle_gpus, bad_node, node_away, stuck_job, full_disk, certificate or doctor."
        ),
    ],
    threshold: Threshold = None,
    minutes: Minutes = None,
    action: Action = None,
    notify: Recipients = None,
    as_json: Json = False,
) -> None:
    """Add a rule. Without --threshold it has the default of its kind."""
    with client() as skep:
        made = skep.create_alert_rule(name, kind, **_fields(threshold, minutes, action, notify))
    _say_rule("Added", made, as_json=as_json)


def update_rule(
    name: RuleName,
    threshold: Threshold = None,
    minutes: Minutes = None,
    action: Action = None,
    notify: Recipients = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it is looked at.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Change a rule."""
    changes = given_fields(**_fields(threshold, minutes, action, notify), enabled=enabled)
    with client() as skep:
        changed = skep.update_alert_rule(str(_find(skep, name).id), **changes)
    _say_rule("Changed", changed, as_json=as_json)


def delete_rule(name: RuleName, as_json: Json = False) -> None:
    """Delete a rule, with its alerts."""
    with client() as skep:
        skep.delete_alert_rule(str(_find(skep, name).id))
    say_deleted(name, as_json=as_json)


def _fields(
    threshold: float | None, minutes: int | None, action: str | None, notify: list[str] | None
) -> dict[str, Any]:
    fields = {"threshold": threshold, "for_minutes": minutes, "action": action}
    given = {name: value for name, value in fields.items() if value is not None}
    return given | ({"recipients": notify} if notify else {})


def _find(skep: Skep, name: str) -> AlertRule:
    for rule in skep.alert_rules():
        if name in (rule.name, str(rule.id)):
            return rule
    raise SkepError(404, "rule_not_found", f"There is no alert rule {name}.")


def _say_rule(done: str, rule: AlertRule, *, as_json: bool) -> None:
    if as_json:
        print_json(rule)
    else:
        say(f"{done} {rule.name}: {rule.kind} {rule.threshold:g}, {rule.action}")
