"""One box as a whole: ready, through the death of any part, and gone without a trace."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.ports import free_port
from tests.support.stack import Stack, environment_of, eventually, stack, start

from skep_platform.onebox.home import Home

pytestmark = pytest.mark.stack

ONE_BOX = [sys.executable, "-m", "skep_platform.onebox"]
CHILDREN = {
    *("postgres", "valkey", "web", "gateway", "apps"),
    *("worker-scheduler", "worker-default"),
}


OPTIONS = ("--nodes=2", "--gpus=4", "--runtime=mock")


@pytest.fixture(scope="module")
def box():
    """The last tests stop it and start it again in its home."""
    with stack(*OPTIONS) as running:
        yield running


def run(box: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_in(box.home, *arguments)


def run_in(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ONE_BOX, *arguments],
        env=environment_of(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def port_of(box: Stack) -> int:
    return urlsplit(box.url).port or 0


def living(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}/exe").is_symlink() and not _is_zombie(pid)}


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_ready_means_that_a_job_can_run_at_once(box):
    with box.client() as skep:
        nodes = list(skep.nodes())
        (vc,) = skep.virtual_clusters()
        assert skep.me().is_admin
    assert [node.state for node in nodes] == ["ONLINE", "ONLINE"]
    assert vc.name == "default"
    assert sum(vc.quotas.values()) == sum(len(node.gpus) for node in nodes) == 8
    job = box.submit(name="at-once", command="mock run_for=0.1", tasks=2, gpus=4)
    assert box.wait_for_end(job.id).state == "SUCCEEDED"


def test_the_password_is_reported_once_and_is_in_no_file(box):
    said = (box.home.root.parent / "up.log").read_text()
    (password,) = re.findall(r"password +(\S+)", said)
    for tried in range(10):
        try:
            kept = [
                p.read_bytes()
                for p in box.home.root.rglob("*")
                if p.is_file() and p.parts[-2] != "postgres"
            ]
            break
        except OSError:  # files of a task that ended, or a socket, went away meanwhile
            assert tried < 9
    assert kept
    assert not any(password.encode() in content for content in kept)


def test_no_one_on_this_machine_guesses_passwords_under_many_addresses(box):
    def guess(number: int) -> int:
        address = {"X-Forwarded-For": f"10.0.0.{number}"}
        body = {"username": "nobody", "password": "wrong"}
        url = f"{box.url}/api/v1/auth/token"
        return httpx.post(url, json=body, headers=address, timeout=60).status_code

    with ThreadPoolExecutor(12) as pool:  # at once: a slow machine makes no minute of them
        assert 429 in pool.map(guess, range(12))


def test_a_second_supervisor_says_that_one_runs(box):
    done = run(box, "up")
    assert done.returncode == 3
    assert box.url in done.stderr


def test_a_taken_port_is_reported(box, tmp_path):
    done = run_in(Home(tmp_path / "home"), "up", f"--port={port_of(box)}")
    assert done.returncode == 1
    assert "--port" in done.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [({"SKEP_SECRET_KEY": "short"}, "token_urlsafe"), ({"SKEP_PUBLIC_URL": "http://a.org"}, "TLS")],
)
def test_finding_s19_a_weak_setting_is_reported_before_anything_starts(tmp_path, setting, said):
    home = Home(tmp_path / "home")
    done = subprocess.run(
        [*ONE_BOX, "up"], env=environment_of(home, **setting), capture_output=True, text=True
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert not home.root.exists()


def test_admin_commands_run_inside_it(box):
    done = run(box, "manage", "shell", "-v0", "-c", "print(6 * 7)")
    assert done.stdout.strip() == "42", done.stderr


@pytest.mark.parametrize("name", [*sorted(CHILDREN), "agent-node-1"])
def test_a_part_that_dies_is_started_again_and_jobs_run(box, name):
    before = box.kill(name)
    eventually(lambda: box.pids().get(name, before) != before, 60)
    job = box.submit(name=f"after-{name}", command="mock run_for=0.1", tasks=2, gpus=4)
    assert box.wait_for_end(job.id).state == "SUCCEEDED"


def test_a_killed_supervisor_leaves_no_one_behind_and_the_next_one_goes_on(box):
    with box.client() as skep:
        assert skep.me().username == "admin"
    everyone = box.processes()
    assert len(everyone) > len(CHILDREN)
    box.process.kill()
    box.process.wait()
    eventually(lambda: not living(everyone), 60, lambda: f"still there: {living(everyone)}")
    said = box.home.root.parent / "up.log"
    said.unlink()
    other = free_port()
    box.process = start(box.home, other, *OPTIONS)
    assert "shown only now" not in said.read_text()
    box.url = box.url.replace(str(port_of(box)), str(other))
    with box.client() as skep:  # the same administrator, by the token of the first life
        assert [node.state for node in skep.nodes()] == ["ONLINE", "ONLINE"]


def test_down_stops_everything_and_loses_nothing(box):
    job = box.submit(name="kept", command="mock run_for=0.1")
    box.wait_for_end(job.id)
    everyone = box.processes()
    assert run(box, "down").returncode == 0
    eventually(lambda: not living(everyone), 60, lambda: f"still there: {living(everyone)}")
    assert box.process.wait(timeout=60) == 0
    assert run(box, "status").returncode == 3
    box.process = start(box.home, port_of(box), *OPTIONS)
    with box.client() as skep:
        assert skep.job(job.id).state == "SUCCEEDED"


@pytest.mark.docker
def test_jobs_outlive_the_box_unless_they_are_stopped():
    build = Path(__file__).parents[3] / "examples/demo/build_image.py"
    subprocess.run([sys.executable, build], check=True)
    command = "echo begun; while [ ! -e /tmp/end ]; do sleep 0.1; done"
    lease = {"SKEP_LEASE_S": "300"}  # outlasts the slowest restart
    with stack("--gpus", "2", **lease) as box:
        image = {"image": "skep-demo:latest", "command": command}
        jobs = [box.submit(name=f"outlives-{n}", **image) for n in (1, 2)]
        for job in jobs:
            box.wait_for_job(job.id, lambda found: found.state == "RUNNING")
        assert "2 jobs go on" in run(box, "down").stderr
        box.process.wait(timeout=60)
        box.process = start(box.home, port_of(box), "--gpus=2", **lease)
        with box.client() as skep:
            assert [skep.job(job.id).state for job in jobs] == ["RUNNING", "RUNNING"]
            assert [skep.job(job.id).attempt for job in jobs] == [1, 1]
        assert "go on" not in run(box, "down", "--stop-jobs").stderr
        box.process.wait(timeout=60)
        box.process = start(box.home, port_of(box), "--gpus=2", **lease)
        with box.client() as skep:
            assert [skep.job(job.id).state for job in jobs] == ["STOPPED", "STOPPED"]


@pytest.mark.long
@pytest.mark.docker
def test_finding_u6_a_planned_stop_longer_than_the_lease_costs_no_job():
    build = Path(__file__).parents[3] / "examples/demo/build_image.py"
    subprocess.run([sys.executable, build], check=True)
    command = "echo begun; while [ ! -e /tmp/end ]; do sleep 0.1; done"
    lease = {"SKEP_LEASE_S": "6", "SKEP_LEASE_MARGIN_S": "5", "SKEP_HEARTBEAT_S": "1"}
    with stack("--gpus", "2", **lease) as box:
        job = box.submit(name="planned", image="skep-demo:latest", command=command)
        box.wait_for_job(job.id, lambda found: found.state == "RUNNING")
        said = run(box, "down").stderr
        assert "1 job goes on in its containers: planned" in said
        assert "within 60 minutes" in said
        box.process.wait(timeout=60)
        time.sleep(2 * 6 + 5)  # what the finding is about
        box.process = start(box.home, port_of(box), "--gpus=2", **lease)
        with box.client() as skep:
            found = skep.job(job.id)
            assert (found.state, found.attempt, found.retries_used) == ("RUNNING", 1, 0)
        kinds = box.query("SELECT kind FROM core_event WHERE subject_type = 'node' ORDER BY id")
        assert ("node.lost",) not in kinds
        assert "go on" not in run(box, "down", "--stop-jobs").stderr


def test_a_start_that_fails_says_why_and_leaves_nothing_running(tmp_path):
    home = Home(tmp_path / "home")
    (home.engines / "postgres").mkdir(parents=True)
    (home.engines / "postgres/PG_VERSION").write_text("9.6\n")  # of a much older server
    done = run_in(home, "up", f"--port={free_port()}")
    assert done.returncode == 1
    assert "Skep did not start: postgres keeps dying" in done.stderr
    assert home.supervisor_pid() is None
    environments = Path("/proc").glob("[0-9]*/environ")
    assert not [path for path in environments if _mentions(path, str(home.root))]


def _mentions(path: Path, text: str) -> bool:
    try:
        return text.encode() in path.read_bytes()
    except OSError:
        return False
