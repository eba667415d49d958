"""What runs around the commands of a task, in a real shell."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.openpai import job

from skep_jobfile import notes, parse, render_secrets, scripts

CMD = "com.microsoft.pai.runtimeplugin.cmd"
PLUGINS = "com.microsoft.pai.runtimeplugin"


def prerequisite(name: str, *, starts: str = "", succeeds: str = "", **more: Any) -> dict[str, Any]:
    pairs = [("taskStarts", starts), ("taskSucceeds", succeeds)]
    callbacks = [{"event": event, "commands": [text]} for event, text in pairs if text]
    return {"name": name, "type": "script", "plugin": CMD, "callbacks": callbacks, **more}


def job_with(
    *prerequisites: dict[str, Any], use: list[str] | None = None, commands: Any = ("echo main",),
    **changes: Any,
) -> dict[str, Any]:  # fmt: skip
    names = [p["name"] for p in prerequisites] if use is None else use
    made = job(role={"commands": list(commands), "prerequisites": names}, **changes)
    made["prerequisites"] += prerequisites
    return made


def script_of(data: dict[str, Any]) -> str:
    read, document = parse(json.dumps(data))
    built = scripts.build(read, document.data)
    assert built.issues == []
    return built.commands["worker"]


def run(data: dict[str, Any], secrets: Any = None) -> tuple[int, list[str]]:
    """Exit code and lines."""
    script = render_secrets(script_of(data), secrets or {})
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_without_anything_around_it_the_script_is_the_commands() -> None:
    assert script_of(job(role={"commands": [" a ", "", "b"]})) == "a\n\nb"


def test_callbacks_run_in_order_before_and_in_reverse_after_success() -> None:
    data = job_with(
        prerequisite("a", starts="echo a1", succeeds="echo a2"),
        prerequisite("b", starts="echo b1", succeeds="echo b2"),
    )
    assert run(data) == (0, ["a1", "b1", "main", "b2", "a2"])


def test_nothing_follows_a_failure_and_its_exit_code_stays() -> None:
    data = job_with(prerequisite("a", succeeds="echo never"), commands=["echo main; exit 42"])
    assert run(data) == (42, ["main"])


def test_a_prerequisite_that_fails_ends_the_task_unless_it_is_asked_to_go_on() -> None:
    assert run(job_with(prerequisite("a", starts="exit 7"))) == (7, [])
    ignored = prerequisite("a", starts="exit 7", failurePolicy="ignore")
    assert run(job_with(ignored)) == (0, ["main"])


def test_required_prerequisites_come_first_and_once_even_in_a_circle() -> None:
    data = job_with(
        prerequisite("base", starts="echo base", require=["tools"]),
        prerequisite("tools", starts="echo tools", require=["base"]),
        prerequisite("top", starts="echo top", require=["base", "nowhere"]),
        use=["top", "base"],
    )
    assert run(data) == (0, ["tools", "base", "top", "main"])


def test_the_cmd_plugin_runs_for_its_roles_with_parameters_and_secrets() -> None:
    callbacks = [
        {"event": "taskStarts", "commands": ["echo <% $parameters.p %> <% $secrets.s %>"]},
        {"event": "taskSucceeds", "commands": ["echo done"]},
    ]
    plugins = [
        {"plugin": "cmd", "parameters": {"callbacks": callbacks}},
        {"plugin": "cmd", "parameters": {"callbacks": callbacks}, "taskroles": ["other"]},
    ]
    data = job(role={"commands": ["echo main"]}, parameters={"p": "P"}, extras={PLUGINS: plugins})
    assert "<% $secrets.s %>" in script_of(data)
    assert run(data, {"s": "S"}) == (0, ["P S", "main", "done"])


def test_deployment_commands_stand_directly_around_those_of_the_role() -> None:
    around = {"preCommands": ["x=1"], "postCommands": ["echo $x"]}
    data = job_with(
        prerequisite("a", starts="echo first"),
        deployments=[{"name": "d", "taskRoles": {"worker": around}}],
        defaults={"deployment": "d"},
    )
    assert run(data) == (0, ["first", "main", "1"])


def test_a_broken_template_in_a_callback_is_reported_with_its_place() -> None:
    read, document = parse(json.dumps(job_with(prerequisite("a", starts="x <% S3cret"))))
    (issue,) = scripts.build(read, document.data).issues
    assert (issue.code, issue.path) == (
        "invalid_template",
        ("prerequisites", 1, "callbacks", 0),
    )
    assert "S3cret" not in issue.message


def test_variables_are_rendered_but_for_secrets_and_keep_their_spaces() -> None:
    environment = {"A": " <% $parameters.p %> ", "B": "<% $secrets.s %>", "C": 1.5, "D": True}
    data = job(parameters={"p": 3}, extras={"skep": {"environment": environment}})
    read, document = parse(json.dumps(data))
    assert scripts.build(read, document.data).environment == {
        "A": " 3 ", "B": "<% $secrets.s %>", "C": "1.5", "D": "true"
    }  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> tuple[str, str]:
    """Address and commit."""
    place = tmp_path / "origin"

    def git(*args: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        done = subprocess.run(
            ["git", "-C", str(place), *who, *args], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    place.mkdir()
    git("init", "-q")
    for text in ("old", "new"):
        (place / "file").write_text(text)
        git("add", "file")
        git("commit", "-qm", text)
    return f"file://{place}", git("rev-parse", "HEAD~1")


def git_job(url: str, commit: str, path: Path) -> dict[str, Any]:
    files = {"git": {"url": url, "commit": commit}, "path": str(path)}
    commands = [f"cat {path}/file"]
    return job(role={"commands": commands}, extras={"skep": {"workingFiles": files}})


def test_working_files_come_out_of_git_at_their_commit(
    repository: tuple[str, str], tmp_path: Path
) -> None:
    url, commit = repository
    assert run(git_job(url, commit, tmp_path / "a b"))[0] != 0  # the test's own `cat`
    assert run(git_job(url, commit, tmp_path / "work")) == (0, ["old"])


def test_git_that_fails_says_why_without_the_address(
    repository: tuple[str, str], tmp_path: Path
) -> None:
    url, _ = repository
    code, lines = run(git_job(url, "0" * 40, tmp_path / "work"))
    assert (code, lines) == (1, [f"skep: git has no commit {'0' * 40}"])
    code, lines = run(git_job(f"{url}-S3cret", "0" * 40, tmp_path / "other"))
    assert code == 1
    assert lines[0].startswith("skep: git cannot fetch from the repository")
    assert "S3cret" not in str(lines)


def test_what_is_not_carried_out_is_reported() -> None:
    plugins = [{"plugin": "tensorboard"}, {"plugin": "ssh"}, {"plugin": "git", "taskroles": ["x"]}]
    plugins += [{"plugin": "azure_storage"}, {"plugin": "teamwise_storage"}]
    odd = prerequisite("odd", plugin="other", callbacks=[{"event": "never", "commands": []}])
    data = job_with(
        odd,
        secrets={"p": "******"},
        extras={
            PLUGINS: plugins,
            "jobStatusChangeNotification": {"running": True},
            "tensorBord": 1,
            "submitFrom": "page",
            "hivedScheduler": {"gangReleaseEnabled": True},
        },
    )
    data["taskRoles"]["worker"] |= {
        "taskRetryCount": 1,
        "extraContainerOptions": {"infiniband": True, "shmMb": 3},
    }
    read, document = parse(json.dumps(data))
    found = {(n.code, ".".join(map(str, n.path))) for n in notes(read, document.data)}
    assert found == {
        ("not_used", f"extras.{PLUGINS}.0.plugin"),
        ("not_used", f"extras.{PLUGINS}.2.plugin"),
        ("unknown_task_role", f"extras.{PLUGINS}.2.taskroles.0"),
        ("not_used", "prerequisites.1.plugin"),
        ("not_used", "prerequisites.1.callbacks.0.event"),
        ("storage_not_mounted", f"extras.{PLUGINS}.3.plugin"),
        ("not_used", "extras.tensorBord"),
        ("not_used", "extras.hivedScheduler.gangReleaseEnabled"),
        ("not_used", "taskRoles.worker.taskRetryCount"),
        ("not_used", "taskRoles.worker.extraContainerOptions.shmMb"),
        ("masked_secret", "secrets.p"),
    }
