"""What the facts of failed task attempts say by themselves, and when a log is needed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from skep_diagnosis.table import NO_SIGNATURE
from skep_platform.jobs.lifecycle import diagnosing
from skep_platform.jobs.lifecycle.diagnosing import Diagnosis, Failed

ROOT = Path(__file__).resolve().parents[3]
START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
# Said of any failure that its node gave no code for.
NO_CODE = {"failed"}
# Said to those who reach into a task that runs.
OF_STREAMS = {
    *("exec_failed", "not_running", "port_closed", "port_not_allowed", "too_many_streams"),
}

# Said of a save of a container as an image, which does not touch its task.
OF_SAVES = {
    *("push_denied", "push_failed", "save_changed", "save_failed", "save_has_secret"),
    *("may_not_save", "save_timeout", "save_too_large"),
}


def failed(rank: int = 0, at: float = 0.0, **reported: Any) -> Failed:
    known: dict[str, Any] = {
        "tasks": 2,
        "exit_code": None,
        "exit_signal": None,
        "oom_killed": False,
        "error_code": "",
        "error_message": "",
        "memory_peak_mb": None,
        "memory_mb": 1024,
        "xids": [],
        "disk_full": False,
        "started_at": START,
        "finished_at": START + timedelta(seconds=at),
    }
    name: dict[str, Any] = {"id": UUID(int=rank + 1), "rank": rank, "role": "worker", "index": rank}
    return Failed(**name, node_id=UUID(int=99), node=f"n{rank}", **known | reported)


def never_ran(**reported: Any) -> Diagnosis:
    found = diagnosing.by_facts([failed(started_at=None, **reported)])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("reported", "code", "reaction", "blame"),
    [
        ({"error_code": "image_not_found"}, 254, "NEVER_RETRY", "job"),
        ({"error_code": "image_auth"}, 254, "NEVER_RETRY", "job"),
        ({"error_code": "image_pull"}, 320, "ALWAYS_BACKOFF_RETRY", "platform"),
        ({"error_code": "spec_refused"}, -200, "NEVER_RETRY", "job"),
        ({"error_code": "gpu_unavailable"}, -1205, "ALWAYS_RETRY", "node"),
        ({"error_code": "disk_full"}, -1000, "ALWAYS_RETRY", "node"),
        ({"error_code": "node_lost"}, -1001, "ALWAYS_RETRY", "node"),
        ({"error_code": "container_lost"}, 321, "ALWAYS_RETRY", "node"),
        ({"error_code": "engine_down"}, 321, "ALWAYS_RETRY", "node"),
        ({"error_code": "port_conflict"}, 253, "ALWAYS_RETRY", "node"),
        ({"error_code": "barrier_timeout"}, 251, "ALWAYS_BACKOFF_RETRY", "none"),
        ({"error_code": "create_failed"}, -1201, "RETRY_TO_MAX", "unknown"),
        ({"error_code": "start_failed"}, -1204, "RETRY_TO_MAX", "unknown"),
        (
            {"error_code": "start_failed", "error_message": "exec: sh: not found"},
            -1203,
            "NEVER_RETRY",
            "job",
        ),
        (
            {"error_code": "start_failed", "error_message": "exec /x: permission denied"},
            -1202,
            "NEVER_RETRY",
            "job",
        ),
        ({"error_code": "oom_killed", "oom_killed": True}, -1200, "NEVER_RETRY", "job"),
        ({"exit_code": 137, "memory_peak_mb": 1024}, -1200, "NEVER_RETRY", "job"),
        ({"exit_code": 1, "xids": [79]}, 319, "ALWAYS_RETRY", "node"),
    ],
)
def test_facts_alone_report(reported: dict[str, Any], code: int, reaction: str, blame: str) -> None:
    found = diagnosing.by_facts([failed(**reported)])
    assert found is not None
    verdict = found.verdict
    assert (verdict.code, verdict.reaction, verdict.blame) == (code, reaction, blame)
    assert verdict.evidence.source == "facts"


@pytest.mark.parametrize(
    "reported",
    [
        {"exit_code": 1},
        {"exit_code": 137},
        {"exit_signal": 11, "exit_code": None},
        {"xids": [13]},
        {"exit_code": 1, "disk_full": True},
    ],
)
def test_what_may_have_another_cause_asks_for_the_log(reported: dict[str, Any]) -> None:
    assert diagnosing.by_facts([failed(**reported)]) is None


def test_a_task_that_failed_first_without_a_fact_asks_for_the_log() -> None:
    later = failed(1, at=2.0, error_code="oom_killed", oom_killed=True)
    assert diagnosing.by_facts([later, failed(0, exit_code=1)]) is None


def test_what_happened_long_after_the_first_failure_explains_nothing() -> None:
    lost = failed(1, at=600.0, error_code="node_lost")
    found = diagnosing.by_facts([lost, failed(0, error_code="oom_killed", oom_killed=True)])
    assert found is not None
    assert found.verdict.rank == 0


def test_a_task_that_never_ran_needs_no_log() -> None:
    found = never_ran(error_code="failed", error_message="It went wrong.")
    assert (found.verdict.code, found.verdict.evidence.text) == (-300, "It went wrong.")


def test_the_code_of_a_failure_is_reported_with_the_message_of_the_node() -> None:
    found = never_ran(error_code="image_pull", error_message="The registry does not answer.")
    assert found.as_dict()["evidence"]["text"] == "image_pull: The registry does not answer."
    bare = never_ran(error_code="image_pull").as_dict()
    assert bare["evidence"]["text"] == "error_code = image_pull"


def test_a_long_message_of_the_node_is_cut() -> None:
    found = never_ran(error_code="start_failed", error_message="permission denied " * 50)
    reported = found.as_dict()["evidence"]["text"]
    assert reported.startswith("start_failed: permission denied ")
    assert len(reported) == 200


def test_nothing_that_failed_has_no_signature() -> None:
    found = diagnosing.by_facts([])
    assert found is not None
    assert found.verdict.code == NO_SIGNATURE


def test_the_log_says_which_of_the_tasks_failed_first() -> None:
    both = [failed(0, exit_code=1, at=1.0), failed(1, exit_code=1)]
    logs = {
        both[0].id: [b"[Rank 0] Watchdog caught collective operation timeout\n"],
        both[1].id: [b"torch.OutOfMemoryError: CUDA out of memory.\n"],
    }
    reported = diagnosing.judge(both, logs).as_dict()
    assert (reported["code"], reported["task"], reported["node"]) == (226, "worker-1", "n1")
    assert reported["evidence"]["text"] == "torch.OutOfMemoryError: CUDA out of memory."


def test_only_a_fault_of_the_node_blames_the_node() -> None:
    assert never_ran(error_code="gpu_unavailable").node_to_blame == "n0"
    assert never_ran(error_code="image_auth").node_to_blame is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("max_duration_exceeded", "PodDeadlineExceeded"),
        ("preempted", "JobPreempted"),
        ("stopped", "StopFrameworkRequested"),
    ],
)
def test_what_befalls_the_job_as_a_whole_has_a_diagnosis(code: str, name: str) -> None:
    assert diagnosing.by_code(code).verdict.name == name


def test_every_error_code_of_agent_and_platform_has_a_diagnosis() -> None:
    codes = set(error_codes()) - NO_CODE - OF_STREAMS - OF_SAVES
    assert {"image_not_found", "spec_refused", "node_lost", "start_timeout"} <= codes
    unmapped = {c for c in codes if never_ran(error_code=c).verdict.code == diagnosing.NEVER_RAN}
    assert not unmapped, "add rules with facts to diagnosis/skep_diagnosis/table.toml"


def error_codes() -> Iterator[str]:
    """Those that the sources write: RuntimeFailure("x", …), error_code="x", and those that the
    interface of the runtimes guarantees."""
    agent, jobs = ROOT / "agent" / "skep_agent", ROOT / "platform" / "skep_platform" / "jobs"
    base = agent / "runtimes" / "base.py"
    yield from _reserved_start(ast.parse(base.read_text(encoding="utf-8")))
    for file in [*agent.rglob("*.py"), *jobs.rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            yield from _written(node)


def _reserved_start(base: ast.Module) -> Iterator[str]:
    for node in base.body:
        if isinstance(node, ast.ClassDef) and node.name == "RuntimeFailure":
            yield from re.findall(r"\b[a-z]+_[a-z_]+\b", ast.get_docstring(node) or "")


def _written(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.keyword(arg="error_code", value=value):
            yield from _texts(value)
        case ast.Assign(targets=[ast.Attribute(attr="error_code")], value=value):
            yield from _texts(value)
        case ast.Call(func=ast.Name(id="RuntimeFailure"), args=[code, *_]):
            yield from _texts(code)


def _texts(value: ast.expr) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
            yield node.value
