"""`skep-agent join` against a server that has had too many joins from this address."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.support.slapd import certificate
from typer.testing import CliRunner, Result

from skep_agent import join as joining
from skep_agent.main import app
from skep_agent.statedir import StateDir

JOINED = {"node_id": "id-1", "name": "gpu-07", "credential": "very-secret"}
THROTTLED = {"code": "throttled", "message": "120 requests failed in a minute."}


class Server(ThreadingHTTPServer):
    """Answers joins with `answers`, the last one again and again; `asked` are their times."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, dict[str, str], str | None]] = []
        self.asked: list[float] = []

    def join(self, state: Path, scheme: str = "http") -> Result:
        options = ["--server", f"{scheme}://127.0.0.1:{self.server_port}", "--token", "t"]
        return CliRunner().invoke(app, ["join", *options, "--state", str(state)])


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.asked.append(time.monotonic())
        self.rfile.read(int(self.headers["Content-Length"]))
        answers = self.server.answers
        status, body, retry_after = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Tests read stderr."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_it_waits_as_long_as_the_server_says_and_joins(server: Server, tmp_path: Path) -> None:
    server.answers = [(429, THROTTLED, "1"), (201, JOINED, None)]
    result = server.join(tmp_path)
    assert result.exit_code == 0, result.output
    first, second = server.asked
    assert second - first >= 1
    assert "refuses joins from this address for now; trying again in 1 s" in result.stderr
    assert StateDir(tmp_path).load().credential == "very-secret"


def test_it_gives_up_after_a_while(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "MOST_WAIT_S", 1)
    server.answers = [(429, THROTTLED, "1")]
    result = server.join(tmp_path)
    assert (result.exit_code, len(server.asked)) == (1, 2)
    assert "waited 1 s of at most 1 s) (throttled)" in result.stderr


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((429, THROTTLED, "86400"), "throttled"),
        ((403, {"code": "join_token_invalid", "message": "Used."}, None), "join_token_invalid"),
        ((503, {"code": "unavailable", "message": "Away."}, "1"), "unavailable"),
        ((301, {}, None), "join_refused"),
        ((200, {"page": "Log in to the network"}, None), "join_refused"),
    ],
)
def test_it_does_not_wait_too_long_and_not_for_other_errors(
    server: Server, tmp_path: Path, answer: tuple[int, dict[str, str], str | None], code: str
) -> None:
    server.answers = [answer]
    result = server.join(tmp_path)
    assert (result.exit_code, len(server.asked)) == (1, 1)
    assert f"({code})" in result.stderr
    assert "trying again" not in result.stderr
    assert not (tmp_path / "credential.json").exists()


def test_an_authority_that_the_machine_trusts_is_trusted(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.answers = [(201, JOINED, None)]
    result = server.join(tmp_path, "https")
    assert (result.exit_code, "CERTIFICATE_VERIFY_FAILED" in result.stderr) == (1, True)

    def of_machine(context: ssl.SSLContext) -> None:
        context.load_verify_locations(tmp_path / "cert.pem")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", of_machine)
    assert server.join(tmp_path, "https").exit_code == 0
