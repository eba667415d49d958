"""What is wrong on the user's own machine, or changes there while it is copied."""

from __future__ import annotations

import ssl
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.slapd import certificate

from skep_client import cli
from skep_client.calls import Call
from skep_client.cli import fs
from skep_client.cli.fs import PIECE, Place
from skep_client.cli.progress import bar
from skep_client.client import Skep
from skep_client.errors import SkepError

THERE = Place("team", "a")


def test_an_upload_of_a_file_that_is_cut_meanwhile_ends(tmp_path: Path) -> None:
    source, sent = tmp_path / "a", list[tuple[int, bool]]()
    source.write_bytes(bytes(2 * PIECE))

    class Store:
        def storage_upload(self, *_: str) -> Any:
            return SimpleNamespace(offset=0)

        def write_storage_file(
            self, storage: str, path: str, data: bytes, offset: int, *, last: bool
        ) -> Any:
            sent.append((len(data), last))
            assert len(sent) < 5, "it goes on for ever"
            source.write_bytes(b"")
            return SimpleNamespace(offset=offset + len(data))

    fs._upload(Store(), source, THERE)  # type: ignore[arg-type]
    assert sent == [(PIECE, False), (0, True)]


def test_a_file_that_is_cut_while_it_is_fetched_is_not_taken_for_whole(tmp_path: Path) -> None:
    class Store:
        def storage_usage(self, *_: str) -> Any:
            return SimpleNamespace(size=10, modified_at=None)

        def read_storage_file(self, storage: str, path: str, offset: int, size: int) -> bytes:
            return b"" if offset else b"half"

    with pytest.raises(SkepError) as refused:
        fs._download(Store(), THERE, tmp_path / "a")  # type: ignore[arg-type]
    assert refused.value.code == "file_changed"
    assert list(tmp_path.iterdir()) == []


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
