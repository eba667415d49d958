"""`skep limits`: what the jobs and the users of a virtual cluster may use at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import JobName, Json, client, find_job, print_json, print_table, say

if TYPE_CHECKING:
    from skep_client.models import Limit

EFFECTS = {
    "submit": "refused at submit",
    "wait": "the job waits",
    "run": "while it runs",
}
ON = {"on": 1, "off": 0}


def add_to(app: typer.Typer) -> None:
    app.command()(limits)
    app.command("keep-idle")(keep_idle)


def limits(
    vc: Annotated[str, typer.Argument(metavar="VC", help="Virtual cluster.")],
    name: Annotated[str, typer.Argument(help="Only this limit.")] = "",
    value: Annotated[
        str, typer.Argument(help="Set it: a number, on, off, or default (VC admin, admin).")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show the limits of a virtual cluster, what is used of them and what happens beyond them; set
    one, or return it to its default."""
    with client() as skep:
        if value == "default":
            found = [skep.reset_limit(vc, name)]
        elif value:
            found = [skep.set_limit(vc, name, _number(value))]
        else:
            found = skep.limits(vc).limits
    if name and not value:
        known = [limit.name for limit in found]
        if name not in known:
            raise typer.BadParameter(f"There is no limit {name}. Limits are: {', '.join(known)}.")
        found = [limit for limit in found if limit.name == name]
    if as_json:
        print_json(found)
        return
    print_table(
        ("LIMIT", "VALUE", "MOST USED NOW", "BEYOND IT", "SET BY"),
        [
            (
                limit.name,
                _shown(limit),
                "" if limit.used is None else f"{limit.used:,}",
                EFFECTS.get(limit.effect, limit.effect),
                "admins" if limit.set_by == "admin" else "VC admins",
            )
            for limit in found
        ],
    )


def keep_idle(
    job: JobName,
    undo: Annotated[bool, typer.Option("--undo", help="The idle rule holds for it again.")] = False,
) -> None:
    """Exempt a job from the idle rule of its virtual cluster (VC admin, admin)."""
    from skep_client import calls

    with client() as skep:
        found = skep.run(calls.set_idle_exemption(find_job(skep, job).id, not undo))
    held = "may keep idle GPUs" if found.idle_exempt else "is subject to the idle rule"
    say(f"{found.name} {held}")


def _number(value: str) -> int:
    if value in ON:
        return ON[value]
    if value.isascii() and value.isdecimal():
        return int(value)
    raise typer.BadParameter("VALUE is a whole number, on, off, or default.")


def _shown(limit: Limit) -> str:
    if limit.unit == "switch":
        return "on" if limit.value else "off"
    if limit.is_open and limit.value == limit.default:
        return "none"
    return f"{limit.value:,} {limit.unit}"
