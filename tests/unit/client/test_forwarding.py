"""Where forwarded ports listen, and how streams are opened."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.sync.server import ServerConnection, serve

from skep_client import forwarding
from skep_client.client import Skep
from skep_client.errors import ServerUnreachable
from skep_client.forwarding import Forward, own_address
from skep_client.streams import open_exec, open_port


def forward(attempt: str, local: int = 0, address: str = "") -> Forward:
    return Forward(None, attempt, local, 8888, lambda error: None, address)  # type: ignore[arg-type]


def test_finding_s21_a_forwarded_page_gets_no_cookie_of_skep_or_of_another_task():
    """By the rule that browsers follow: cookies belong to a host, whatever the port."""
    pages = {"http://127.0.0.1:8470/", "http://localhost:8470/"}
    with forward("attempt-a") as one, forward("attempt-b") as other:
        pages |= {f"http://{f.address}:{f.local}/" for f in (one, other)}
        hosts = {urlsplit(page).hostname for page in pages}
    assert len(hosts) == len(pages) == 4


@pytest.mark.parametrize("attempt", [f"attempt-{n}" for n in range(200)])
def test_finding_s21_the_address_is_loopback_always_the_same_and_never_the_common_one(attempt):
    address = own_address(attempt)
    assert address == own_address(attempt)
    first, second, _, last = map(int, address.split("."))
    assert first == 127
    assert 64 <= second < 192
    assert 0 < last < 255


def test_finding_s21_the_given_port_is_free_at_each_tasks_own_address():
    with forward("a") as one, forward("b", one.local) as other:
        assert (one.local, one.address != other.address) == (other.local, True)


def test_finding_s21_a_system_with_one_loopback_address_uses_that(monkeypatch):
    real = socket.create_server

    def only_common(address, **kwargs):
        if address[0] != "127.0.0.1":
            raise OSError(errno.EADDRNOTAVAIL, "Can't assign requested address")
        return real(address, **kwargs)

    monkeypatch.setattr(forwarding.socket, "create_server", only_common)
    with forward("a") as one:
        assert one.address == "127.0.0.1"
    with pytest.raises(OSError, match="assign"):
        forward("a", address="127.9.9.9")


class Restarting:
    """A server of streams that answers the first requests with these statuses; 0 hangs up."""

    def __init__(self, *statuses: int) -> None:
        self.left, self.asked = list(statuses), 0

    def request(self, connection: ServerConnection, _: Any) -> Any:
        self.asked += 1
        status = self.left.pop(0) if self.left else None
        if status == 0:
            connection.socket.shutdown(socket.SHUT_RDWR)
        return connection.respond(status, "") if status else None

    def serve(self, connection: ServerConnection) -> None:
        connection.recv()
        connection.send(b"\x03" + json.dumps({"exit": 7}).encode())


@contextmanager
def restarting(*statuses: int) -> Iterator[tuple[Restarting, Skep]]:
    streams = Restarting(*statuses)
    with serve(streams.serve, "127.0.0.1", 0, process_request=streams.request) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        with Skep(address, "t", retry_delays_s=(0, 0)) as skep:
            yield streams, skep
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("statuses", [(503, 502), (0, 0)], ids=["503", "hangs up"])
def test_a_stream_is_opened_while_the_server_restarts(statuses):
    with restarting(*statuses) as (streams, skep):
        with open_exec(skep, "attempt", ["true"]) as stream:
            assert list(stream.output()) == []
        assert (stream.exit_code, streams.asked) == (7, 3)


@pytest.mark.parametrize(("status", "asked"), [(503, 3), (403, 1)])
def test_a_stream_is_given_up_in_the_end_and_where_it_is_refused(status, asked):
    with restarting(*[status] * 5) as (streams, skep):
        with pytest.raises(ServerUnreachable, match=str(status)):
            open_exec(skep, "attempt")
        assert streams.asked == asked


def test_a_stream_to_where_no_server_listens_is_tried_again():
    pauses: list[float] = []

    class Delays(list[float]):
        def __iter__(self) -> Iterator[float]:
            for _ in range(3):
                pauses.append(0)
                yield 0

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        Skep(f"http://127.0.0.1:{port}", retry_delays_s=Delays()) as skep,
        pytest.raises(ServerUnreachable, match="No stream"),
    ):
        open_port(skep, "attempt", 80)
    assert len(pauses) == 3
