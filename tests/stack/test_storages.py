"""Storages from the grant to the files that a job writes, on two agents and a real engine."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.object_store import ObjectStore, object_store
from tests.support.stack import Stack
from tests.support.stack_jobs import gang, log_lines, reach, submit

from skep_client.transfers import version_of

pytestmark = [pytest.mark.stack, pytest.mark.docker]
VC = "default"


@pytest.fixture
def shared(api: httpx.Client, storage_root: Path) -> Iterator[Path]:
    """A storage "team" that jobs may write, and "homes" with folders for users."""
    for name, per_user in (("team", False), ("homes", True)):
        (storage_root / name).mkdir(exist_ok=True)
        body = {"name": name, "type": "host_path", "data": {"path": str(storage_root / name)}}
        answer = api.post("/storages", json={**body, "per_user": per_user})
        assert answer.status_code == 201, answer.text
        assert api.put(f"/storages/{name}/grants/{VC}", json={}).status_code == 200
    yield storage_root
    for name in ("team", "homes"):
        api.delete(f"/storages/{name}")


def job(image: str, command: str, *names: str, tasks: int = 1) -> dict:
    storages = {"storages": [{"name": name} for name in names]}
    return gang(image, command, tasks=tasks, gpus=4 if tasks > 1 else 0, extras=storages)


def test_tasks_on_two_nodes_write_to_one_storage(api, image, shared):
    """Each waits until it sees what all of them wrote."""
    script = """
echo "from $RANK" > /mnt/team/rank-$RANK
until [ $(ls /mnt/team | wc -l) = $WORLD_SIZE ]; do sleep 0.1; done
cat /mnt/team/rank-*; echo home > /mnt/homes/note"""
    job_id = submit(api, job(image, script, "team", "homes", tasks=4))
    reach(api, job_id, {"SUCCEEDED"})
    for lines in log_lines(api, job_id).values():
        assert lines == [f"from {rank}" for rank in range(4)]
    (home,) = (shared / "homes").iterdir()
    assert home.name == api.get("/me").json()["username"]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / "note").read_text() == "home\n"


def test_grant_to_read_is_read_only_and_a_withdrawn_one_is_refused(api, image, shared):
    (shared / "team" / "data").write_text("data\n")
    assert api.put(f"/storages/team/grants/{VC}", json={"read_only": True}).status_code == 200
    script = "cat /mnt/team/data; echo x > /mnt/team/new || echo refused"
    job_id = submit(api, job(image, script, "team"))
    reach(api, job_id, {"SUCCEEDED"})
    assert log_lines(api, job_id)[0] == ["data", "refused"]
    assert not (shared / "team" / "new").exists()
    assert api.delete(f"/storages/team/grants/{VC}").status_code == 204
    answer = api.post("/jobs", json=job(image, script, "team"))
    assert answer.status_code in (403, 404), answer.text


def test_home_of_the_owner_is_found_again_by_the_next_job(api, image, shared):
    assert api.patch("/storages/homes", json={"home": True}).status_code == 200
    me = api.get("/me").json()["username"]
    for script, expected in (
        ("cd; pwd; echo kept > note", [f"/home/{me}"]),
        ("cat ~/note", ["kept"]),
    ):
        job_id = submit(api, gang(image, script, tasks=1, gpus=0))
        reach(api, job_id, {"SUCCEEDED"})
        assert log_lines(api, job_id)[0] == expected
    without = {"skep": {"home": False}}
    job_id = submit(api, gang(image, f"ls -d /home/{me} || echo none", tasks=1, gpus=0,
                              extras=without))  # fmt: skip
    reach(api, job_id, {"SUCCEEDED"})
    assert "none" in log_lines(api, job_id)[0]
    assert (shared / "homes" / me / "note").read_text() == "kept\n"


def test_files_go_to_a_job_and_come_back_by_the_command_line(
    skep: Stack, api, image, shared, tmp_path
):
    environment = {**os.environ, "SKEP_SERVER": skep.url, "SKEP_TOKEN": skep.token}

    def cli(*words: object) -> str:
        program = str(Path(sys.executable).with_name("skep"))
        command = [program, *map(str, words)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    large = os.urandom(9 * 1024 * 1024 + 17)
    (tmp_path / "code" / "lib").mkdir(parents=True)
    (tmp_path / "code" / "lib" / "large").write_bytes(large)
    (tmp_path / "code" / "empty").touch()
    # As a command that was cut left it: the first bytes have arrived.
    (shared / "team" / "code" / "lib").mkdir(parents=True)
    (shared / "team" / "code" / "lib" / ".large.skep-part").write_bytes(large[:5000])
    version = version_of((tmp_path / "code" / "lib" / "large").stat())
    (shared / "team" / "code" / "lib" / ".large.skep-from").write_text(version)
    assert cli("fs", "cp", "-r", tmp_path / "code", "team:") == "Copied 2 files.\n"
    assert (shared / "team" / "code" / "lib" / "large").read_bytes() == large
    assert "lib/" in cli("fs", "ls", "team:code")
    assert "in 2 files and 1 folders" in cli("fs", "du", "team:code")

    job_id = submit(api, job(image, "cp -r /mnt/team/code /mnt/team/result", "team"))
    reach(api, job_id, {"SUCCEEDED"})
    cli("fs", "cp", "-r", "team:result", tmp_path)
    assert (tmp_path / "result" / "lib" / "large").read_bytes() == large
    assert (tmp_path / "result" / "empty").read_bytes() == b""
    cli("fs", "cp", "team:result/lib/large", tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == large
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    cli("fs", "rm", "-r", "team:result")
    assert not (shared / "team" / "result").exists()


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


def test_bucket_is_copied_before_a_job_and_written_back_after_it(api, image, store, monkeypatch):
    """What waits for the job finds its results, also in a folder for each user."""
    bucket = store.new_bucket(monkeypatch)
    me = api.get("/me").json()["username"]
    bucket.put_object(Key=f"users/{me}/input", Body=b"21\n")
    bucket.put_object(Key="users/other/input", Body=b"another user's\n")
    body = {
        "name": "bucket",
        "type": "s3",
        "data": {"endpoint": store.endpoint, "bucket": bucket.name, "prefix": "users"},
        "per_user": True,
        "access_key": "AKIAEXAMPLEKEY",
        "secret_key": "never-to-be-seen-again",
    }
    answer = api.post("/storages", json=body)
    assert answer.status_code == 201, answer.text
    try:
        assert api.put(f"/storages/bucket/grants/{VC}", json={}).status_code == 200
        script = "cd /mnt/bucket; ls; cat input; echo $((2 * $(cat input))) > output"
        first = submit(api, job(image, script, "bucket"))
        after = job(image, "cat /mnt/bucket/output", "bucket")
        after["extras"]["skep"] = {"dependsOn": [{"job": first, "condition": "afterok"}]}
        second = submit(api, after)
        reach(api, first, {"SUCCEEDED"})
        reach(api, second, {"SUCCEEDED"})
    finally:
        api.delete("/storages/bucket")
    assert log_lines(api, first)[0] == ["input", "21"]
    assert log_lines(api, second)[0] == ["42"]
    expected = {"users/other/input", f"users/{me}/input", f"users/{me}/output"}
    assert {one.key for one in bucket.objects.all()} == expected
