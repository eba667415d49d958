"""The command `skep-agent`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import respx
from tests.support.agent_process import config_for
from tests.support.agent_server import FakeControlPlane
from tests.support.agent_specs import spec
from typer.testing import CliRunner, Result

from skep_agent.config import address_of
from skep_agent.main import app
from skep_agent.statedir import StateDir

JOINED = {"node_id": "id-1", "name": "gpu-07", "credential": "very-secret"}


def join(state: Path) -> Result:
    # The line end is that of a file, as secrets of Kubernetes are often made of.
    options = ["--server", "http://skep/", "--token", "t\n", "--name", "gpu-07", "--allow-http"]
    return CliRunner().invoke(app, ["join", *options, "--state", str(state)])


@respx.mock
@pytest.mark.parametrize(
    ("server", "warns", "refused"),
    [
        ("http://10.0.0.7:8470", True, True),
        ("http://skep.lan", True, True),
        ("http://localhost.example.org", True, True),
        ("skep.lan", True, True),
        ("http://127.0.0.1:8470", False, False),
        ("http://[::1]:8470", False, False),
        ("http://LOCALHOST:8470", False, False),
        ("https://skep.example.org", False, False),
    ],
)
def test_joining_without_tls_is_refused_unless_asked_for_and_then_warned_of(
    tmp_path: Path, server: str, warns: bool, refused: bool
) -> None:
    route = respx.post(url__regex=".*/api/v1/nodes/join").respond(201, json=JOINED)
    options = ["join", "--server", server, "--token", "very-secret-token", "--state", str(tmp_path)]
    result = CliRunner().invoke(app, options, env={"SKEP_ALLOW_HTTP": "0"})
    assert (result.exit_code, route.called) == ((2, False) if refused else (0, True))
    assert ("--allow-http" in result.output) == refused
    assert "very-secret-token" not in result.output
    if warns and server.startswith("http"):
        result = CliRunner().invoke(app, options, env={"SKEP_ALLOW_HTTP": "1"})
        assert (result.exit_code, route.called) == (0, True)
        assert "in the clear" in result.output


@respx.mock
def test_join_trades_a_token_for_a_credential(tmp_path: Path) -> None:
    route = respx.post("http://skep/api/v1/nodes/join").respond(201, json=JOINED)
    result = join(tmp_path)
    assert result.exit_code == 0, result.output
    state = StateDir(tmp_path)
    assert json.loads(route.calls[0].request.content) == {
        "token": "t",
        "name": "gpu-07",
        "instance_id": state.instance_id,
    }
    assert state.load().credential == "very-secret"
    assert "very-secret" not in result.output


@respx.mock
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(403, json={"code": "token_used", "message": "Used."}), "token_used"),
        (httpx.Response(502, text="<html>"), "answered 502"),
        (httpx.ConnectError("no route"), "does not answer"),
    ],
)
def test_a_refused_join_says_why(
    tmp_path: Path, answer: httpx.Response | Exception, words: str
) -> None:
    respx.post("http://skep/api/v1/nodes/join").side_effect = [answer]
    result = join(tmp_path)
    assert result.exit_code == 1
    assert words in result.output
    assert not (tmp_path / "credential.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "skep-agent join"),
        (["--ports", "9-1"], "FIRST-LAST"),
        (["--labels", "x"], "KEY=VALUE"),
        (["--runtime", "podman"], "docker"),
        (["--address", "node-7.invalid"], "--address"),
        (["--gpu-check", "sh -c 'dcgmi"], "--gpu-check"),
    ],
)
def test_a_wrong_start_says_what_to_do(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["run", "--state", str(tmp_path), *arguments])
    assert result.exit_code == 2
    assert words in result.output


def test_a_state_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    state = tmp_path / "file" / "state"
    state.parent.write_text("")
    for command in (["run"], ["join", "--server", "http://127.0.0.1:1", "--token", "t"]):
        result = CliRunner().invoke(app, [*command, "--state", str(state)])
        assert isinstance(result.exception, SystemExit)
        assert f"{state} cannot be used" in result.output


def test_an_address_that_is_a_name_becomes_the_address_behind_it() -> None:
    assert address_of("localhost") == "127.0.0.1"
    assert address_of("fd00::7") == "fd00::7"
    assert address_of("") == ""


async def test_the_process_runs_and_leaves_on_sigterm(
    server: FakeControlPlane, tmp_path: Path
) -> None:
    config_for(tmp_path, server.url)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "skep_agent", "run", "--state", str(tmp_path)),
        *("--runtime", "mock", "--gpus", "2", "--gpu-model", "A100", "--ports", "30000-30010"),
        *("--labels", "rack=7", "--cpus", "4"),
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    await server.until(lambda: server.node().socket)
    await server.desire(spec())
    await server.until(lambda: server.node().complete("a1"))
    inventory = server.node().hellos[0].inventory
    assert [gpu.model for gpu in inventory.gpus] == ["A100", "A100"]
    assert (inventory.port_range, inventory.labels) == ((30000, 30010), {"rack": "7"})
    process.send_signal(signal.SIGTERM)
    _, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, stderr
    assert b"Traceback" not in stderr
    assert b"secret-n1" not in stderr
    assert all(json.loads(line)["event"] for line in stderr.splitlines())


def test_a_line_that_no_one_takes_ends_nothing() -> None:
    """The disk of a log is full, or whoever reads the lines has ended."""
    script = (
        "import structlog; from skep_agent.main import configure_logs; configure_logs();"
        "[structlog.get_logger().error('x') for _ in range(3)]; print('goes on', flush=True)"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert done.stdout == b"goes on\n"
