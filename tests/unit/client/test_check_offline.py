"""`skep check --offline`: a line per file, without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.openpai import job
from typer.testing import CliRunner

from skep_client.cli import app


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(
        json.dumps(job(extras={"hivedScheduler": {"taskRoles": {"worker": {"skuType": "A"}}}}))
    )
    bad.write_text("name: [")
    return [str(good), str(bad)]


def test_each_file_is_one_line_of_json(files: list[str]) -> None:
    done = CliRunner().invoke(app, ["check", "--offline", "--json", "--user", "bob", *files])
    good, bad = (json.loads(line) for line in done.stdout.splitlines())
    assert done.exit_code == 1
    assert set(good) == {"file", "valid", "entrypoints", "default_scheduler", "hived"}
    assert good["default_scheduler"]["taskRoles"][0]["app_env"]["PAI_USER_NAME"] == "bob"
    assert (bad["file"], bad["valid"]) == (files[1], False)
    assert set(bad["errors"][0]) == {"code", "message", "path", "line", "column"}


def test_a_cluster_file_says_what_there_is(files: list[str], tmp_path: Path) -> None:
    facts = tmp_path / "cluster.yaml"
    facts.write_text("skuTypes: {B: {gpu: 1, cpu: 4, memoryMB: 8192}}")
    done = CliRunner().invoke(app, ["check", "--offline", "--cluster", str(facts), files[0]])
    assert done.exit_code == 1
    assert "unknown_sku_type" in done.stdout


def test_a_broken_cluster_file_is_a_wrong_use(files: list[str], tmp_path: Path) -> None:
    facts = tmp_path / "cluster.yaml"
    facts.write_text("skuTypes: {B: {gpu: x}}")
    done = CliRunner().invoke(app, ["check", "--offline", "--cluster", str(facts), files[0]])
    assert done.exit_code == 2


def test_good_files_are_said_to_be_valid(files: list[str]) -> None:
    done = CliRunner().invoke(app, ["check", "--offline", files[0]])
    assert (done.exit_code, done.stdout) == (0, f"{files[0]} is valid\n")
