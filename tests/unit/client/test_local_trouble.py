"""What is wrong on the user's own machine."""

from __future__ import annotations

import ssl
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from tests.support.slapd import certificate

from skep_client import cli
from skep_client.calls import Call
from skep_client.cli.progress import bar
from skep_client.client import Skep


def test_a_name_with_brackets_can_be_shown_at_a_progress_bar(monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as at a terminal
    with bar("Sending data[/1]", 10) as progress:
        progress(10)


def test_a_file_that_cannot_be_read_is_one_line_of_error(monkeypatch, tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "argv", ["skep", "whoami"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["users", "import"], ["templates", "publish", "t"], ["check"]])
def test_a_file_that_is_no_text_is_no_fault_of_the_program(
    words, monkeypatch, tmp_path, capsys
) -> None:
    (tmp_path / "file").write_bytes(b"caf\xe9")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    title = ["--title", "t"] if words[0] == "templates" else []
    monkeypatch.setattr(sys, "argv", ["skep", *words, str(tmp_path / "file"), *title])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code in (1, 2)
    assert "can't decode" in capsys.readouterr().err


def test_an_authority_that_the_machine_trusts_is_trusted(monkeypatch, tmp_path) -> None:
    certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def of_machine(context: ssl.SSLContext) -> None:
        context.load_verify_locations(tmp_path / "cert.pem")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", of_machine)
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            with Skep(f"https://127.0.0.1:{server.server_port}", retry_delays_s=()) as skep:
                assert skep.run(Call("GET", "", str, root="/"))
        finally:
            server.shutdown()
            thread.join()
