"""`skep diagnose`: why a job failed, from its logs and what is known of its tasks, offline."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.common import Json, read_file, say

if TYPE_CHECKING:
    from skep_diagnosis.verdict import Log, Verdict

Logs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[LOG]...", help="Log files, one per task; '-' reads stdin."),
]
FactsFile = Annotated[
    str,
    typer.Option(
        "--facts",
        metavar="FILE",
        help="JSON: exit_code, signal, oom_killed, memory_peak_mb, memory_limit_mb, xid,"
        " ecc_double, disk_full, error_code, preempted, node_lost, stopped, rank, finished_at;"
        ' for several logs {"tasks": [{"log": NAME, ...}]}.',
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command()(diagnose)


def diagnose(logs: Logs = None, facts: FactsFile = "", as_json: Json = False) -> None:
    """Say why a job failed, and what to do about it. Of several logs it is the rank that failed
    first."""
    from skep_diagnosis.verdict import diagnose as judge

    known = _facts(facts)
    if not logs and not known:
        raise typer.BadParameter("give a log, or facts, or both")
    verdict = judge(_inputs(logs or [], known))
    if as_json:
        print(json.dumps(_plain(verdict)))
    else:
        _show(verdict)


def _facts(path: str) -> dict[str, Any]:
    if not path:
        return {}
    try:
        found = json.loads(read_file(path))
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{path} holds no JSON object")
    return found


def _inputs(paths: list[str], known: Mapping[str, Any]) -> list[Log]:
    """Facts without a log count too: a task may have written nothing."""
    from skep_diagnosis.facts import read_facts
    from skep_diagnosis.verdict import Log

    tasks = known.get("tasks")
    tasks = [t for t in tasks if isinstance(t, dict)] if isinstance(tasks, list) else []
    of_log = {task["log"]: task for task in tasks if isinstance(task.get("log"), str)}
    inputs = []
    for path in paths:
        mine = of_log.pop(path, None) or of_log.pop(path.rpartition("/")[2], None)
        inputs.append(Log(path, _chunks(path), read_facts(mine or known)))
    rest = [t for t in tasks if not isinstance(t.get("log"), str) or t["log"] in of_log]
    if not paths and not rest:
        rest = [dict(known)]
    return inputs + [Log("", (), read_facts(task)) for task in rest]


def _chunks(path: str) -> Iterator[bytes]:
    try:
        with open(sys.stdin.fileno() if path == "-" else path, "rb", closefd=path != "-") as file:
            while chunk := file.read(1 << 16):
                yield chunk
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error}") from None


def _plain(verdict: Verdict) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        **asdict(verdict),
        "retry_class": verdict.retry,
        "node_to_blame": verdict.node_to_blame,
    }


def _show(verdict: Verdict) -> None:
    evidence = verdict.evidence
    say(f"{verdict.title} ({verdict.code} {verdict.name})")
    if evidence.source == "log":
        rank = "" if verdict.rank is None else f" (rank {verdict.rank})"
        say(f"{evidence.log}:{evidence.line}{rank}: {evidence.text}")
    elif evidence.source == "facts":
        say(evidence.text)
    say(f"{verdict.axis}; {verdict.retry}" + ("; node to blame" * verdict.node_to_blame))
    say(verdict.remedy)
