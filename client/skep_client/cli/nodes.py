"""`skep nodes`: list, drain, cordon, and who is affected."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import Json, ago, client, local_time, print_json, print_table, say

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import Maintenance, Node, NodeForecast

Name = Annotated[str, typer.Argument(metavar="NODE")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Only = Annotated[bool, typer.Option("--forecast", help="Only show which jobs would be affected.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why: shown with the node.")]
ANOTHER_VC = "another virtual cluster"
WHAT = {
    "preempted": "is preempted and starts again from the queue",
    "runs on": "runs on",
    "lost": "is lost here and starts again from the queue",
}


def add_to(app: typer.Typer) -> None:
    nodes = typer.Typer(invoke_without_command=True, help="List, drain and cordon nodes.")
    nodes.callback()(list_nodes)
    for command in (drain, undrain, cordon, uncordon, declare_lost, tokens, revoke_token, check):
        nodes.command()(command)
    windows = typer.Typer(no_args_is_help=True, help="Plan when nodes are not used.")
    windows.command("list")(list_windows)
    windows.command("plan")(plan_window)
    windows.command("cancel")(cancel_window)
    nodes.add_typer(windows, name="maintenance")
    app.add_typer(nodes, name="nodes")
    app.command(hidden=True)(cordon)
    app.command(hidden=True)(uncordon)


def list_nodes(context: typer.Context, as_json: Json = False) -> None:
    """List the nodes and their GPUs."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.nodes())
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "STATE", "GPUS", "USED", "MODEL", "CPUS", "MEMORY", "HEARTBEAT"),
        [_node_row(node) for node in found],
    )


def drain(
    node: Name,
    reason: Reason = "",
    yes: Yes = False,
    forecast: Only = False,
    as_json: Json = False,
) -> None:
    """Empty a node: nothing new is placed there, and what runs is asked to go; it starts again
    from its old place in the queue (admin)."""
    with client() as skep:
        if _agreed(skep, node, "drain", yes=yes, only=forecast, as_json=as_json):
            _print_node(skep.drain(node, reason=reason), as_json)


def undrain(node: Name, as_json: Json = False) -> None:
    """Use a node again (admin)."""
    with client() as skep:
        _print_node(skep.undrain(node), as_json)


def cordon(node: Name, reason: Reason = "", forecast: Only = False, as_json: Json = False) -> None:
    """Place nothing new on a node; what runs there goes on (admin)."""
    from skep_client import calls

    with client() as skep:
        if _agreed(skep, node, "cordon", yes=True, only=forecast, as_json=as_json):
            _print_node(skep.run(calls.cordon(node, reason=reason)), as_json)


def uncordon(node: Name, as_json: Json = False) -> None:
    """Use a node again (admin)."""
    from skep_client import calls

    with client() as skep:
        _print_node(skep.run(calls.uncordon(node)), as_json)


def declare_lost(node: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Stop waiting for a node that is surely off: its tasks start elsewhere at once (admin)."""
    from skep_client import calls

    if not yes:
        say(f"If {node} still runs, its tasks run twice until its agent comes back.", err=True)
        typer.confirm(f"Is the machine of {node} surely off?", abort=True, err=True)
    with client() as skep:
        _print_node(skep.run(calls.declare_lost(node)), as_json)


def tokens(as_json: Json = False) -> None:
    """List the join tokens that still let nodes in (admin)."""
    from skep_client import calls

    with client() as skep:
        found = list(skep.all(lambda cursor: calls.join_tokens(cursor=cursor)))
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "BY", "MADE", "EXPIRES", "USES LEFT", "FOR"),
        [
            (
                str(token.id),
                token.created_by or "",
                f"{ago(token.created_at)} ago",
                local_time(token.expires_at, seconds=False),
                token.uses_left,
                token.node or "any new node",
            )
            for token in found
        ],
    )


def revoke_token(token_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """End a join token; nodes that joined with it stay (admin)."""
    from skep_client import calls

    with client() as skep:
        skep.run(calls.revoke_join_token(token_id))
    say(f"The join token {token_id} admits no node any more.")


def check(
    node: Name,
    rounds: Annotated[
        int, typer.Option(help="Rounds to pass in a row before the node is used again.")
    ] = 1,
    show: Annotated[bool, typer.Option("--show", help="Only show the last rounds.")] = False,
    as_json: Json = False,
) -> None:
    """Have a node check its disk, its GPUs and its network when no task is there; it is cordoned
    until it has passed (admin)."""
    from itertools import islice

    from skep_client import calls

    with client() as skep:
        made = None if show else skep.run(calls.check_node(node, rounds=rounds))
        pages = skep.all(lambda cursor: calls.node_checks(node, cursor=cursor))
        found = [made] if made else list(islice(pages, 10))
    if as_json:
        print_json(found)
        return
    for one in found:
        finished = f"{ago(one.finished_at)} ago" if one.finished_at else "when no task is there"
        say(f"{one.state} {finished} ({one.cause})")
        for result in one.results:
            numbers = ", ".join(f"{name} {value:g}" for name, value in result.numbers.items())
            outcome = "passed" if result.passed else result.message
            say(f"  {result.name}: {outcome}" + (f" ({numbers})" if numbers else ""))


def list_windows(
    node: Annotated[str, typer.Option(help="Of this node.")] = "", as_json: Json = False
) -> None:
    """List the windows of maintenance that are planned or on."""
    from skep_client import calls

    asked = {"node": node} if node else {}
    with client() as skep:
        pages = skep.all(lambda cursor: calls.maintenance_windows(**asked, cursor=cursor))
        _print_windows(list(pages), as_json)


def plan_window(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...")],
    start: Annotated[datetime, typer.Option(help="When they are drained: UTC, or with an offset.")],
    end: Annotated[datetime, typer.Option(help="When they are used again, likewise.")],
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Plan a window of maintenance: nothing is placed on the nodes that would not end before it
    begins; then they are drained, and at its end used again (admin)."""
    from skep_client import calls

    when = (_with_zone(start), _with_zone(end))
    with client() as skep:
        planned = skep.run(calls.plan_maintenance(nodes, *when, reason=reason))
        _print_windows(planned, as_json)


def _with_zone(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def cancel_window(window: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Cancel a window of maintenance; one that is on ends (admin)."""
    from skep_client import calls

    with client() as skep:
        skep.run(calls.cancel_maintenance(window))
    say(f"The window {window} is cancelled.")


def _print_windows(found: Sequence[Maintenance], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (one.id, one.node, one.state, *map(_minute, (one.starts_at, one.ends_at)), one.reason)
        for one in found
    ]
    print_table(("ID", "NODE", "STATE", "FROM", "UNTIL", "REASON"), rows)


def _minute(at: datetime | None) -> str:
    return local_time(at, seconds=False) or "-"


def _agreed(skep: Skep, node: str, action: str, *, yes: bool, only: bool, as_json: bool) -> bool:
    """Print which jobs are affected, and ask; with `yes` neither."""
    if yes and not only:
        return True
    found = skep.node_forecast(node, action)
    if only and as_json:
        print_json(found)
        return False
    _print_forecast(found, err=not only)
    return not only and typer.confirm(f"{action.capitalize()} {node}?", abort=True, err=True)


def _print_forecast(found: NodeForecast, *, err: bool) -> None:
    if not found.jobs:
        say("No job runs there.", err=err)
    for job in found.jobs:
        name = f"{job.owner}/{job.name}" if job.name else "Another job"
        what = WHAT.get(job.what, job.what)
        tasks = "1 task" if job.tasks == 1 else f"{job.tasks} tasks"
        gpus = "1 GPU" if job.gpus == 1 else f"{job.gpus} GPUs"
        of = job.virtual_cluster or ANOTHER_VC
        say(f"{name} of {of} ({tasks} there, {gpus} in all) {what}.", err=err)
    for vc in found.virtual_clusters:
        loses = ", ".join(f"{number} x {kind}" for kind, number in sorted(vc.loses.items()))
        say(f"{vc.name} loses {loses} meanwhile.", err=err)


def _print_node(node: Node, as_json: bool) -> None:
    if as_json:
        print_json(node)
        return
    why = f" ({node.cordon_reason})" if node.cordoned and node.cordon_reason else ""
    say(f"{node.name} is {_state(node)}{why}")


def _state(node: Node) -> str:
    return f"{_use(node)}, disk nearly full" if node.disk_low else _use(node)


def _use(node: Node) -> str:
    if node.draining:
        return f"{node.state}, draining"
    return f"{node.state}, cordoned" if node.cordoned else node.state


def _node_row(node: Node) -> tuple[object, ...]:
    used = sum(gpu.used_by is not None for gpu in node.gpus)
    models = ", ".join(sorted({gpu.model for gpu in node.gpus}))
    memory = f"{node.memory_mb // 1024} GiB"
    heartbeat = f"{ago(node.last_heartbeat_at)} ago" if node.last_heartbeat_at else ""
    return (
        *(node.name, _state(node), len(node.gpus), used, models, f"{node.cpus:g}"),
        *(memory, heartbeat),
    )
