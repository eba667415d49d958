"""What the chart brings for Prometheus and Grafana: alert rules with run-books, and dashboards."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.support import components
from tests.support.rule_cases import CASES

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "charts/skep/monitoring"
RULES = MONITORING / "rules.yaml"
SERIES = re.compile(r"\b(skep_[a-z_]+|process_[a-z_]+)\b")


def alerts() -> list[dict]:
    (group,) = YAML(typ="safe", pure=True).load(RULES.read_text())["groups"]
    return group["rules"]


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [components.prometheus("promtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_promtool_accepts_the_rules():
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_rule_fires_on_its_fault_and_on_nothing_else(tmp_path):
    assert {rule["alert"] for rule in alerts()} == CASES.keys(), "a rule without a case"
    tests = []
    for alert, case in CASES.items():
        rule = next(rule for rule in alerts() if rule["alert"] == alert)
        at = f"{case.after_min}m"
        tests.append(
            {
                "interval": "30s",
                "input_series": [{"series": s, "values": v} for s, v in case.fault.items()],
                "alert_rule_test": [
                    {"eval_time": at, "alertname": alert, "exp_alerts": [_expected(rule, case)]}
                ],
            }
        )
        tests.append(
            {
                "interval": "30s",
                "input_series": [{"series": s, "values": v} for s, v in case.healthy.items()],
                "alert_rule_test": [{"eval_time": at, "alertname": alert}],
            }
        )
    plain = tmp_path / "rules.yaml"
    # What people read is compared by eye; labels and times decide whom it wakes.
    plain.write_text(re.sub(r"\n        annotations:\n(          .*\n)+", "\n", RULES.read_text()))
    file = tmp_path / "cases.yaml"
    file.write_text(json.dumps({"rule_files": [str(plain)], "tests": tests}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def _expected(rule: dict, case) -> dict:
    severity = case.labels.get("severity", rule["labels"]["severity"])
    return {"exp_labels": {**case.labels, "severity": severity}}


@pytest.mark.parametrize("alert", [rule["alert"] for rule in alerts()])
def test_each_alert_leads_to_its_section_of_the_run_books(alert):
    (rule,) = [rule for rule in alerts() if rule["alert"] == alert]
    assert rule["annotations"]["runbook_url"] == f"DOCS_URL/run-books.html#{alert.lower()}"
    text = (ROOT / "docs/run-books.md").read_text()
    section = re.search(rf"^## {alert}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, "no section"
    assert "**Do:**" in section[1], "it does not say what to do"


def test_dashboards_are_those_of_the_script():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/dashboards", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def named_series() -> set[str]:
    """All series that rules and dashboards ask for."""
    found = {name for rule in alerts() for name in SERIES.findall(rule["expr"])}
    for file in (MONITORING / "dashboards").glob("*.json"):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                found.update(SERIES.findall(target["expr"]))
    return found


def test_every_series_that_is_asked_for_is_described():
    text = (ROOT / "docs/observability.md").read_text()
    described = set(SERIES.findall(text))
    base = {re.sub(r"_(bucket|count|sum)$", "", name) for name in named_series()}
    missing = {n for n in base if n not in described and not n.startswith("process_")}
    assert not missing
