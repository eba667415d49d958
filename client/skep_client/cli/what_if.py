"""`skep what-if`: when the jobs of now would start and end with other policies, nodes, quotas."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.common import Json, VcName, client, print_table, say, until
from skep_client.cli.forecast import show_answer, until_over

if TYPE_CHECKING:
    from skep_client.models import MovedJob, WhatIf

GPUS = re.compile(r"(?P<model>[^:]+):(?P<gpus>[+-]?[0-9]{1,6})")
QUOTA = re.compile(r"(?P<vc>[^=]+)=(?P<model>[^:]+):(?P<gpus>[+-]?[0-9]{1,6})")


def add_to(app: typer.Typer) -> None:
    app.command("what-if")(what_if)


def what_if(
    vc: VcName = "",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="To compare with the present one: srtf, fifo:backfill=skip. May be repeated.",
        ),
    ] = None,
    policy_of: Annotated[
        str,
        typer.Option(metavar="VC", help="Who gets the policies, without --vc; default: all."),
    ] = "",
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL:GPUS",
            help="Whole nodes that come or go: A100:+16, A100:-8. May be repeated.",
        ),
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VC=MODEL:GPUS",
            help="More or less quota: research=A100:+16. May be repeated.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show when the jobs that wait and run now would start and end, as the cluster is and as it
    would be. For admins, and with --vc for the admins of that virtual cluster."""
    changes = [_change(text, GPUS, "--gpus") for text in gpus or []]
    changes += [_change(text, QUOTA, "--quota") for text in quota or []]
    with client() as skep:
        asked = skep.create_simulation(
            policy or [], source="now", virtual_cluster=vc, policy_of=policy_of, changes=changes
        )
        found = until_over(skep, asked)
    show_answer(found, found.now, show, as_json=as_json)


def show(now: WhatIf) -> None:
    """Print a run a line, and the jobs that gain and lose most."""
    print_table(
        ("POLICY", "CLUSTER", "START", "MEAN START", "P95 START", "MEAN END", "NEVER END"),
        [
            (
                side.policy,
                side.scenario.replace("_", " "),
                str(side.starting),
                f"{side.avg_start_s:,.0f} s",
                f"{side.p95_start_s:,.0f} s",
                f"{side.avg_end_s:,.0f} s",
                str(side.never_end),
            )
            for side in now.sides
        ],
    )
    for side in now.sides[1:]:
        label = f"{side.policy}, {side.scenario.replace('_', ' ')}"
        _print_moved(f"EARLIER UNDER {label}", side.gaining, side.gains)
        _print_moved(f"LATER UNDER {label}", side.losing, side.losses)
        if side.hidden:
            say(f"Not listed, as you may not see them: {side.hidden}.")
    say(f"Of {now.running} running and {now.waiting} waiting jobs.")
    if now.unknown_durations:
        say(f"Without an estimate: {now.unknown_durations}, taken for the median job.")


def _print_moved(title: str, count: int, moved: list[MovedJob]) -> None:
    if moved:
        say()
        rows = [
            (
                job.name,
                job.owner,
                _when(job.new_start_at),
                _when(job.old_end_at),
                _when(job.new_end_at),
            )
            for job in moved
        ]
        print_table((f"{title} ({count})", "OWNER", "STARTS", "ENDS AS IT IS", "ENDS"), rows)


def _when(seconds: float | None) -> str:
    return "never" if seconds is None else until(datetime.fromtimestamp(seconds, UTC))


def _change(text: str, pattern: re.Pattern[str], option: str) -> dict[str, Any]:
    match = pattern.fullmatch(text)
    if match is None:
        form = "MODEL:GPUS, such as A100:+16" if pattern is GPUS else "VC=MODEL:GPUS"
        raise typer.BadParameter(f"{text!r} is not {form}", param_hint=option)
    found = match.groupdict()
    return {
        "virtual_cluster": found.get("vc", ""),
        "gpu_model": found["model"],
        "gpus": int(found["gpus"]),
    }
