"""`skep diagnose`, offline."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from skep_client.cli import app


def run(*args: str) -> str:
    done = CliRunner().invoke(app, ["diagnose", *args])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_json_reports_code_class_rule_evidence_and_remedy(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("step 1\nModuleNotFoundError: No module named 'apex'\n")
    result = json.loads(run("--json", str(log)))
    assert result["code"] == 232
    assert result["category"] == "Import error"
    assert result["retry_class"] == "permanent"
    assert result["rule"] == "import_error"
    assert result["evidence"]["line"] == 2
    assert "apex" in result["evidence"]["text"]
    assert result["remedy"]


def test_facts_are_asked_before_the_log(tmp_path: Path) -> None:
    log, facts = tmp_path / "a.log", tmp_path / "facts.json"
    log.write_text("KeyError: 'x'\n")
    facts.write_text('{"exit_code": 1, "xid": [79]}')
    assert "node to blame" in run("--facts", str(facts), str(log))
    assert json.loads(run("--facts", str(facts), "--json"))["node_to_blame"] is True


def test_facts_of_several_tasks_go_to_their_logs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("KeyError: 'x'\n")
    facts = tmp_path / "facts.json"
    tasks = [{"log": "a", "finished_at": 20, "rank": 0}, {"log": "b", "finished_at": 9, "rank": 1}]
    facts.write_text(json.dumps({"tasks": tasks}))
    result = run("--facts", str(facts), "--json", str(tmp_path / "a"), str(tmp_path / "b"))
    assert json.loads(result)["rank"] == 1


def test_a_missing_log_is_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["diagnose", str(tmp_path / "none")])
    assert done.exit_code != 0
    assert "cannot read" in done.output
