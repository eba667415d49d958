"""Moving from one whole Skep, which serves OpenPAI's API, to another by the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.support.stack import JOB, Stack, stack

pytestmark = pytest.mark.stack


def skep(target: Stack, *arguments: str, **environment: str) -> str:
    """Run the command line as an admin of the target; returns what it prints."""
    here = {"SKEP_SERVER": target.url, "SKEP_TOKEN": target.token, "COLUMNS": "200"}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("skep")), *arguments],
        env=dict(os.environ) | here | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_cluster_moves_with_its_people_storages_and_job_files(tmp_path: Path) -> None:
    plan, jobs = tmp_path / "plan.json", tmp_path / "jobs"
    with (
        stack("--no-agents", SKEP_OPENPAI_API="1") as old,
        stack("--no-agents") as new,
    ):
        with old.client() as admin:
            admin.create_virtual_cluster("vision", "", {})
            admin.create_group("lab", "All of the lab", "")
            admin.create_user("mei", "many-busy-bees", email="mei@example.org")
            admin.add_group_member("lab", "mei")
            admin.set_group_role("vision", "lab", "member")
            data = {"server": "nfs.example.org", "path": "/data"}
            admin.create_storage("data", "nfs", data)
            admin.grant_storage_to_group("data", "lab")

        # A user of OpenPAI logs in and submits as OpenPAI's manual says.
        pai = httpx.Client(base_url=f"{old.url}/rest-server/api/v2", timeout=60)
        login = {"username": "mei", "password": "many-busy-bees"}
        token = pai.post("/authn/basic/login", data=login).json()["token"]
        pai.headers["Authorization"] = f"Bearer {token}"
        text = JOB.format(name="train", image="busybox", tasks=1, gpus=1, command="sleep 1")
        text += "defaults: {virtualCluster: vision}\n"
        text += "extras: {hivedScheduler: {jobPriorityClass: oppo}}\n"
        sent = pai.post("/jobs", content=text, headers={"Content-Type": "text/yaml"})
        assert sent.status_code == 202, sent.text
        pai.close()

        source = ("--server", old.url, "--plan", str(plan), "--jobs", str(jobs))
        skep(new, "migrate", "openpai", *source, OPENPAI_TOKEN=old.token)
        assert token not in plan.read_text()
        assert [one.name for one in jobs.iterdir()] == ["mei~train.yaml"]

        assert "create group lab" in skep(new, "migrate", "apply", "--dry-run", str(plan))
        with new.client() as admin:
            assert "mei" not in {user.username for user in admin.users()}
        outcome = json.loads(skep(new, "migrate", "apply", "--json", str(plan)))
        assert outcome["failed"] == []
        assert outcome["reset_urls"]["mei"].startswith("http")
        with new.client() as admin:
            assert [one.username for one in admin.members("vision") if one.role == "member"] == [
                "mei"
            ]
            assert admin.user("mei").email == "mei@example.org"
            assert [one.group for one in admin.storage("data").group_grants] == ["lab"]
        assert "Nothing is left to do" in skep(new, "migrate", "apply", str(plan))
