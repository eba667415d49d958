"""The commands of docs/admin-guide.md, run in their order on the servers that it describes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.live_nodes import LiveNodes
from tests.support.stack import Stack, environment_of, stack
from tests.support.stack_jobs import until

pytestmark = pytest.mark.stack

GUIDE = Path(__file__).parents[2] / "docs/admin-guide.md"
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RACK = "A100-SXM4-80GB-NODE8-2xNVLINK-RACK"


@pytest.fixture(scope="module")
def skep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The ten servers, on which victims need not have run for a while first."""
    at_once = {"SKEP_SCHEDULING_MIN_RUN_S": "0", "SKEP_SCHEDULING_OPPORTUNISTIC_MIN_RUN_S": "0"}
    with (
        stack("--no-agents", SKEP_HEARTBEAT_S="1", **at_once) as started,
        LiveNodes(started, tmp_path_factory.mktemp("nodes")) as nodes,
    ):
        for number in range(1, 9):
            nodes.add(f"gpu-{number:02}", "NVIDIA A100-SXM4-80GB", 8, rack=f"r{(number + 3) // 4}")
        for number in (9, 10):
            nodes.add(f"gpu-{number:02}", "Tesla V100-SXM2-32GB", 4, rack="r3")
        yield started
        with started.api() as api:
            for job in api.get("/jobs").json()["results"]:
                api.post(f"/jobs/{job['id']}/stop")


def test_ten_servers_are_shared_by_three_teams(skep: Stack, tmp_path: Path) -> None:
    said = run_all(skep, tmp_path)

    assert f"{RACK} " in said
    assert '"fits":true' in said
    with skep.api() as api:
        assert owned(api, "vision") == {RACK: 1}
        assert owned(api, "speech") == {"A100-SXM4-80GB-NODE8-2xNVLINK": 3}
        assert sorted(owned(api, "nlp").values()) == [1, 1]
        until(lambda: jobs(api)["decode"]["state"] == "RUNNING")
        assert jobs(api)["sweep"]["preemptions"] >= 1


def run_all(skep: Stack, folder: Path) -> str:
    """Everything that the commands print; fails where one of them does."""
    script = "set -eo pipefail\n" + "\n".join(BLOCK.findall(GUIDE.read_text()))
    forever = script.replace("python train.py", "mock run_for=forever on_checkpoint=exit")
    assert forever != script
    tools = f"{Path(sys.executable).parent}:{environment_of(skep.home)['PATH']}"
    known = {"SKEP_SERVER": skep.url, "SKEP_TOKEN": skep.token, "PATH": tools, "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-c", forever],
        env=environment_of(skep.home, **known),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def owned(api: httpx.Client, vc: str) -> dict[str, int]:
    chains = api.get(f"/virtual-clusters/{vc}/cells").raise_for_status().json()["chains"]
    return {kind["type"]: kind["owned"] for chain in chains for kind in chain["types"]}


def jobs(api: httpx.Client) -> dict[str, dict[str, Any]]:
    return {job["name"]: job for job in api.get("/jobs").json()["results"]}
