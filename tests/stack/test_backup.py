"""A Skep whose state is lost, restored from a backup beside the jobs that still run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from tests.support.docker_images import import_busybox
from tests.support.ports import free_port
from tests.support.stack import Stack, environment_of, eventually, stack, start
from tests.support.stack_jobs import log_of

from skep_platform.onebox.home import Home

pytestmark = [pytest.mark.stack, pytest.mark.docker]

LINES = 120
COUNTS = f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i; sleep 0.5; done"
JOB = """\
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{name: image, type: dockerimage, uri: "{image}"}}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 1}}
    commands: ["{command}"]
secrets: {{key: hush-hush}}
"""

SECRETS_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="  # of 32 bytes

Backup = Callable[..., subprocess.CompletedProcess[str]]


def backup_in(home: Home, **environment: str) -> Backup:
    """As cron does: without the settings with which Skep was started."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "skep_platform.onebox", "backup", *map(str, arguments)]
        known = environment_of(home, **environment)
        return subprocess.run(command, env=known, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def skep() -> Iterator[Stack]:
    with stack("--nodes=1", "--gpus=2", SKEP_SECRETS_KEYS=SECRETS_KEY) as running:
        yield running


@pytest.fixture(scope="module")
def made(skep: Stack, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """(backup, keys, id of a job that runs while it is made)."""
    folder = tmp_path_factory.mktemp("backups")
    keys = tmp_path_factory.mktemp("keys") / "skep.keys"
    image = import_busybox(docker.from_env(), "skep-test/stack:1")
    with skep.api() as api:
        text = JOB.format(name="counts", image=image, command=COUNTS)
        yaml = {"Content-Type": "application/yaml"}
        answer = api.post("/jobs", content=text, headers=yaml)
        assert answer.is_success, answer.text
        job = answer.json()["id"]
        eventually(lambda: len(log_of(api, job)) >= 5, 120)
    done = backup_in(skep.home)("create", "--to", folder, "--keys", keys)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip()), keys, job


def test_a_backup_says_what_it_is_and_is_closed_to_others(skep, made):
    backup, keys, _ = made
    found = json.loads((backup / "manifest.json").read_text())
    assert {part["name"] for part in found["parts"]} == {"database.dump", "stores.tar"}
    assert ["jobs", "0001_initial"] in found["migrations"]
    assert {backup.stat().st_mode & 0o77, keys.stat().st_mode & 0o77} == {0}
    written = json.loads(keys.read_text())
    assert written["secrets_keys"] == SECRETS_KEY
    secret = written["secret_key"]
    assert all(secret.encode() not in file.read_bytes() for file in backup.iterdir())
    run = backup_in(skep.home)
    (listed,) = json.loads(run("list", backup.parent, "--json").stdout)
    assert (listed["path"], listed["problem"]) == (str(backup), "")
    assert run("verify", backup).returncode == 0


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("database.dump", "backup_damaged"),
        ("stores.tar", "backup_damaged"),
        ("manifest.json", "backup_unreadable"),
    ],
)
def test_one_wrong_byte_is_found(skep, made, tmp_path, part, code):
    copy = tmp_path / made[0].name
    shutil.copytree(made[0], copy)
    with (copy / part).open("r+b") as file:
        file.seek(os.stat(copy / part).st_size // 2 if part != "manifest.json" else 0)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    done = backup_in(skep.home)("verify", copy)
    assert (done.returncode, code in done.stderr) == (1, True), done.stderr
    assert (part in done.stderr) or part == "manifest.json"


def test_a_backup_of_a_newer_version_is_refused(skep, made, tmp_path):
    copy = tmp_path / made[0].name
    shutil.copytree(made[0], copy)
    file = copy / "manifest.json"
    found = json.loads(file.read_text())
    found["migrations"].append(["jobs", "9999_of_the_future"])
    file.write_text(json.dumps(found))
    done = backup_in(skep.home)("verify", copy)
    assert (done.returncode, "backup_newer" in done.stderr) == (1, True)


def test_keys_do_not_lie_beside_what_they_open_and_old_backups_go(skep, made):
    backup, *_ = made
    run = backup_in(skep.home)
    beside = run("create", "--to", backup.parent, "--keys", backup.parent / "keys")
    assert (beside.returncode, "keys_beside_backup" in beside.stderr) == (1, True)
    kept = backup.parent.with_name("kept")
    for _ in range(2):  # two within a second would have one name, which is refused
        eventually(lambda: run("create", "--to", kept, "--keep", 1).returncode == 0, 120)
    assert len(list(kept.iterdir())) == 1


def test_a_home_that_is_in_use_is_not_overwritten(skep, made):
    done = backup_in(skep.home)("restore", made[0])
    assert (done.returncode, "skep_runs" in done.stderr) == (1, True)


def test_jobs_that_run_are_adopted_by_the_restored_skep_with_every_line(skep, made, tmp_path):
    backup, keys, job = made
    with skep.api() as api:
        before = api.get(f"/jobs/{job}").json()
    skep.process.terminate()
    skep.process.wait(timeout=60)
    new = Home(tmp_path / "home")
    done = backup_in(new)("restore", backup, "--keys", keys)
    assert (done.returncode, "keys_differ" in done.stderr) == (1, True), done.stderr
    run = backup_in(new, SKEP_SECRETS_KEYS=SECRETS_KEY)
    done = run("restore", backup, "--keys", keys)
    assert done.returncode == 0, done.stderr
    assert run("restore", backup).returncode == 1  # once
    # The state of nodes is theirs. Only the server's is lost.
    shutil.rmtree(skep.home.engines)
    shutil.rmtree(skep.home.data)
    shutil.copytree(skep.home.nodes, new.nodes, dirs_exist_ok=True)
    port = free_port()
    process = start(new, port, "--nodes=1", "--gpus=2", SKEP_SECRETS_KEYS=SECRETS_KEY)
    restored = Stack(new, f"http://127.0.0.1:{port}", process)
    try:
        end = restored.wait_for_end(job)
        assert end.state == "SUCCEEDED"
        with restored.api() as api:
            assert log_of(api, job) == [f"line {n}" for n in range(1, LINES + 1)]
            after = api.get(f"/jobs/{job}").json()
            assert (after["attempt"], after["started_at"]) == (1, before["started_at"])
    finally:
        process.terminate()
        process.wait(timeout=60)
