"""The command line against a whole Skep, as a person or a script uses it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import httpx
import pytest
from tests.support.stack import JOB, Stack, environment_of, eventually, stack
from typer.testing import CliRunner

from skep_client import exits
from skep_client.cli import app

pytestmark = pytest.mark.stack

SKEP = Path(sys.executable).with_name("skep")


@pytest.fixture(scope="module")
def box():
    """Open to every address, of IPv4 and IPv6."""
    options = ("--nodes", "2", "--gpus", "4", "--runtime", "mock")
    with stack(*options, "--host", "::") as running:
        yield running


def skep(box: Stack, *arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess:
    """As the person who started the box, whom `skep up` has logged in."""
    return subprocess.run(
        [SKEP, *arguments],
        env=environment_of(box.home, **env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def start(box: Stack, *arguments: str, said: IO[str], **env: str) -> subprocess.Popen[str]:
    """As `skep`, and go on while it runs; it writes to `said`."""
    return subprocess.Popen(
        [SKEP, *arguments], env=environment_of(box.home, **env), stdout=said, stderr=said, text=True
    )


def succeed(box: Stack, *arguments: str, stdin: str = "") -> str:
    """Return what a command prints. It runs in this process: starting another one takes longer."""
    done = CliRunner().invoke(app, arguments, input=stdin, env=environment_of(box.home))
    assert done.exit_code == 0, (arguments, done.output, done.exception)
    return done.stdout


def job_file(name: str, command: str = "mock run_for=0.1", tasks: int = 2, gpus: int = 1) -> str:
    return JOB.format(name=name, image="unused", command=command, tasks=tasks, gpus=gpus)


def test_it_is_reached_by_ipv4_and_by_ipv6(box):
    for url in (box.url, box.gateway_url):
        port = httpx.URL(url).port
        answers = [httpx.get(f"http://{host}:{port}/readyz") for host in ("127.0.0.1", "[::1]")]
        assert [answer.status_code for answer in answers] == [200, 200], url


def test_the_one_who_started_the_box_is_logged_in(box):
    done = skep(box, "whoami")
    assert (done.returncode, done.stdout.startswith("admin (admin)")) == (0, True), done.stderr
    assert json.loads(succeed(box, "whoami", "--json"))["username"] == "admin"


def test_a_followed_submit_shows_every_line_and_ends_with_the_job(box):
    text = job_file("followed", "mock run_for=0.2 log_lines=50", tasks=3)
    done = skep(box, "submit", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()[1:]
    assert sorted({line.split(" | ")[0] for line in shown}) == ["worker-0", "worker-1", "worker-2"]
    assert len(shown) == 150
    assert "SUCCEEDED" in done.stderr.splitlines()[-1]


def test_a_followed_job_that_fails_is_a_failure(box):
    text = job_file("fails", "mock run_for=0.1 exit_code=7", tasks=1)
    done = skep(box, "submit", "--follow", "-", stdin=text)
    assert done.returncode == 1
    assert "FAILED" in done.stderr.splitlines()[-1]
    assert "7" in succeed(box, "show", "fails")


def test_logs_can_be_narrowed(box):
    text = job_file("narrow", "mock run_for=0.1 log_lines=20")
    succeed(box, "submit", "-f", "-", stdin=text)
    everything = succeed(box, "logs", "narrow").splitlines()
    assert len(everything) == 40
    only_one = succeed(box, "logs", "narrow", "--rank", "1").splitlines()
    assert only_one == [line for line in everything if line.startswith("worker-1 | ")]
    bare = succeed(box, "logs", "narrow", "--rank", "1", "--no-prefix").splitlines()
    assert [line.partition(" | ")[2] for line in only_one] == bare
    assert (
        succeed(box, "logs", "narrow", "--rank", "1", "--tail", "3").splitlines() == only_one[-3:]
    )
    as_json = [json.loads(x) for x in succeed(box, "logs", "narrow", "--json").splitlines()]
    assert {(entry["rank"], entry["stream"]) for entry in as_json} >= {(0, "stdout"), (1, "stdout")}
    assert len(as_json) == 40


def test_a_check_reports_the_place_of_every_fault(box, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(job_file("wrong").replace("gpu: 1", "gpu: many"))
    done = skep(box, "check", str(file))
    assert done.returncode == 1
    assert re.match(rf"{file}:\d+:\d+: .*\(.+\)\n", done.stdout), done.stdout
    file.write_text(job_file("right"))
    assert "right is valid: 2 tasks, 2 GPUs of default" in succeed(box, "check", str(file))
    with box.client() as client:
        assert "right" not in [job.name for job in client.jobs()]


def test_a_submitted_file_is_judged_as_check_does(box):
    done = skep(box, "submit", "-", stdin="name: [")
    assert done.returncode == 1
    assert re.match(r"-:\d+:\d+: .*\(\w+\)\n", done.stderr), done.stderr


def test_a_refused_submit_is_reported_with_its_code(box):
    text = job_file("twice")
    succeed(box, "submit", "-", stdin=text)
    done = skep(box, "submit", "-", stdin=text)
    assert done.returncode == 5
    assert done.stderr.strip().endswith("(job_name_taken)"), done.stderr
    as_json = json.loads(skep(box, "submit", "--json", "-", stdin=text).stderr)
    assert as_json.keys() == {"code", "message", "details"}


def test_a_running_job_is_stopped_by_name_and_reports_its_history(box):
    succeed(box, "submit", "-", stdin=job_file("endless", "mock run_for=600"))
    with box.client() as client:
        (job,) = client.jobs(search="endless")
    box.wait_for_job(job.id, lambda found: found.state == "RUNNING")
    assert "endless" in succeed(box, "ls", "--state", "running")
    used = [line for line in succeed(box, "vc").splitlines() if line.startswith("default")]
    assert " 2 " in used[0]
    assert "endless is STOPP" in succeed(box, "stop", "endless")
    assert box.wait_for_end(job.id).state == "STOPPED"
    kinds = [event["kind"] for event in json.loads(succeed(box, "events", "endless", "--json"))]
    assert {"job.queued", "job.placed", "job.started", "job.stopped"} <= set(kinds)
    assert json.loads(succeed(box, "show", job.id, "--json"))["state"] == "STOPPED"


def test_nodes_are_listed_and_cordoned(box):
    assert [node["name"] for node in json.loads(succeed(box, "nodes", "--json"))] == [
        "node-1",
        "node-2",
    ]
    succeed(box, "cordon", "node-2")
    assert "cordoned" in succeed(box, "nodes")
    succeed(box, "uncordon", "node-2")
    assert "cordoned" not in succeed(box, "nodes")


def test_login_by_password_is_remembered_and_a_wrong_one_is_refused(box, tmp_path):
    said = (box.home.root.parent / "up.log").read_text()
    (password,) = re.findall(r"password +(\S+)", said)
    login = ["login", "--server", box.url, "--username", "admin", "--password-stdin"]
    elsewhere = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert skep(box, *login, stdin="wrong\n", **elsewhere).returncode == 3
    done = skep(box, *login, stdin=f"{password}\n", **elsewhere)
    assert done.returncode == 0, done.stderr
    assert skep(box, "whoami", **elsewhere).stdout.startswith(f"admin (admin) at {box.url}")


@pytest.mark.parametrize(
    ("arguments", "environment", "code"),
    [
        (["show", "no-such-job"], {}, 4),
        (["show", "01a1fc1d-6332-711d-8f5a-8c98a6360c4c"], {}, 4),
        (["ls"], {"SKEP_TOKEN": "wrong"}, 3),
        (["ls"], {"SKEP_SERVER": "http://127.0.0.1:1"}, 6),
        (["submit", "/no/such/file"], {}, 2),
        (["no-such-command"], {}, 2),
    ],
    ids=["unknown name", "unknown id", "wrong token", "no server", "no file", "no command"],
)
def test_exit_codes_report_scripts_what_went_wrong(box, arguments, environment, code):
    done = skep(box, *arguments, **environment)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_finding_s17_tokens_are_made_with_a_password_listed_and_revoked(box, tmp_path):
    with box.client() as client:
        client.create_user("cli-person", "many-busy-bees")
    person = ["--username", "cli-person"]
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    login = ["login", "--server", box.url, *person, "--password-stdin", "--scope", "read"]
    assert skep(box, *login, stdin="many-busy-bees\n", **home).returncode == 0
    listed = skep(box, "token", "list", **home).stdout
    assert re.search(r"skep on .* read ", listed)
    refused = skep(box, "submit", "-f", "-", stdin=job_file("refused"), **home)
    assert refused.returncode != 0
    assert "scope" in refused.stderr
    made = skep(
        box, "token", "create", "ci", "--password-stdin", stdin="many-busy-bees\n", **home
    ).stdout.strip()
    assert made.startswith("skt_")
    narrow = skep(box, "token", "revoke", "ci", **home)
    assert "scope" in narrow.stderr
    assert skep(box, "whoami", **{**home, "SKEP_TOKEN": made, "SKEP_SERVER": box.url}).stdout


def test_a_login_by_the_browser_waits_until_its_user_allows_it(box, tmp_path):
    with box.client() as client:
        client.create_user("by-browser", "many-busy-bees")
    asked = tmp_path / "asked"
    words = ["login", "--server", box.url, "--sso", "--no-browser", "--scope", "read"]
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    with asked.open("w") as said:
        waiting = start(box, *words, said=said, **home)
    eventually(lambda: "the code" in asked.read_text(), 120, asked.read_text)
    assert waiting.poll() is None
    (code,) = re.findall(r"code ([A-Z]{4}-[A-Z]{4})", asked.read_text())
    assert f"{box.url}/device?code={code}" in asked.read_text()
    allow = (
        "from skep_platform.accounts import device; from skep_platform.accounts.models import User;"
        f"device.decide(User.objects.get(username='by-browser'), '{code}', True, 'read', 3600)"
    )
    assert skep(box, "manage", "shell", "-c", allow).returncode == 0
    assert waiting.wait(60) == 0, asked.read_text()
    assert skep(box, "whoami", **home).stdout.startswith(f"by-browser at {box.url}")
    assert re.search(r"skep on .* read ", skep(box, "token", "list", **home).stdout)


def test_finding_u12_members_are_managed_and_finding_s8_jobs_are_shared(box):
    assert "cli-person" in succeed(box, "members", "default", "--add", "cli-person")
    alone = skep(box, "members", "default", "--remove", "admin")
    assert "last VC admin" in alone.stderr
    assert "cli-person" not in succeed(box, "members", "default", "--remove", "cli-person")
    succeed(box, "submit", "-f", "-", stdin=job_file("to-share"))
    assert "everybody" in succeed(box, "share", "to-share", "everyone")
    assert "owner" in succeed(box, "share", "to-share", "default")


def test_groups_give_roles_and_a_file_brings_in_people(box, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("username,groups\ncli-mei,cli-research\n")
    refused = skep(box, "users", "import", str(path))
    assert refused.returncode != 0
    assert "people.csv:2: groups: There is no group named cli-research." in refused.stderr
    succeed(box, "groups", "create", "cli-research")
    assert "1 would be created" in succeed(box, "users", "import", "--dry-run", str(path))
    assert "/reset-password?user=cli-mei" in succeed(box, "users", "import", str(path))
    assert "cli-mei" in succeed(box, "groups", "show", "cli-research")
    shown = succeed(box, "members", "default", "--group", "cli-research", "--role", "viewer")
    assert re.search(r"cli-mei +viewer +cli-research", shown)
    left = succeed(box, "members", "default", "--remove-group", "cli-research")
    assert "cli-mei" not in left
    succeed(box, "groups", "remove", "cli-research", "cli-mei")
    succeed(box, "groups", "delete", "cli-research")
    assert "cli-research" not in succeed(box, "groups")


def test_users_groups_and_virtual_clusters_are_made_changed_and_deleted(box, monkeypatch):
    """Every command once, in this process: starting one takes longer than what it does."""
    monkeypatch.setenv("SKEP_SERVER", box.url)
    monkeypatch.setenv("SKEP_TOKEN", box.token)

    def run(*arguments: str, text: str = "") -> Any:
        done = CliRunner().invoke(app, [*arguments, "--json"], input=text)
        assert done.exit_code == 0, (arguments, done.output, done.exception)
        return json.loads(done.output)

    made = run("users", "create", "kim", "--email", "kim@example.org")
    assert (made["username"], "token=" in made["reset_url"]) == ("kim", True)
    assert run("users", "update", "kim", "--admin")["is_admin"] is True
    assert run("users", "show", "kim")["email"] == "kim@example.org"
    assert "token=" in run("users", "reset-link", "kim")["url"]
    assert {"admin", "kim"} <= {user["username"] for user in run("users", "list")}

    assert run("groups", "create", "crew", "--description", "Of the night")["members"] == 0
    assert run("groups", "add", "crew", "kim") == [{"username": "kim", "external": False}]
    assert [user["username"] for user in run("groups", "show", "crew")] == ["kim"]
    assert run("groups", "update", "crew", "--name", "night-crew")["members"] == 1
    assert "night-crew" in [group["name"] for group in run("groups")]

    (model,) = run("vcs", "show", "default")["quotas"]
    made = run("vcs", "create", "nlp", "--description", "Text", "--gpus", f"{model}=0")
    assert (made["name"], made["quotas"]) == ("nlp", {})
    assert run("vcs", "update", "nlp", "--job-visibility", "members")["job_visibility"] == "members"
    members = run("vcs", "members", "nlp", "--group", "night-crew", "--vc-admin", "admin")
    assert {one["username"]: one["role"] for one in members} == {"kim": "member", "admin": "admin"}
    assert {"default", "nlp"} <= {vc["name"] for vc in run("vcs")}

    assert run("groups", "remove", "night-crew", "kim")["members"] == 0
    assert run("vcs", "delete", "nlp") == {"deleted": "nlp"}
    assert run("groups", "delete", "night-crew") == {"deleted": "night-crew"}
    assert run("users", "delete", "kim") == {"deleted": "kim"}
    for kind, noun in (("users", "user"), ("groups", "group"), ("vcs", "virtual cluster")):
        done = CliRunner().invoke(app, [kind, "show", "kim"])
        assert f"There is no {noun} named kim" in str(done.exception), done.output
    done = skep(box, "vcs", "show", "nlp")
    assert (done.returncode, done.stderr.strip()) == (
        exits.NOT_FOUND,
        "There is no virtual cluster named nlp. (not_found)",
    )
