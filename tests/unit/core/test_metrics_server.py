"""Where the numbers of a process are served."""

from __future__ import annotations

import threading

import httpx
import pytest

from skep_platform.core.metrics import listening
from skep_platform.env_settings import host_and_port


def application(environ, start_response):
    start_response("200 OK", [])
    return [b"numbers"]


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("127.0.0.1", {"127.0.0.1"}),
        ("::1", {"[::1]"}),
        ("0.0.0.0", {"127.0.0.1"}),
        ("", {"127.0.0.1", "[::1]"}),
    ],
)
def test_an_address_of_either_family_or_all_of_both(host, answered):
    server = listening(host, 0, application)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    found = set()
    for address in ("127.0.0.1", "[::1]"):
        try:
            if httpx.get(f"http://{address}:{server.server_port}/").text == "numbers":
                found.add(address)
        except httpx.ConnectError:
            continue
    server.shutdown()
    server.server_close()
    assert found == answered


def test_an_address_without_a_host_is_every_address():
    assert host_and_port(":9470") == ("", 9470)
    assert host_and_port("[::1]:9470") == ("::1", 9470)
    assert host_and_port("9470")[1] == 0  # no address
