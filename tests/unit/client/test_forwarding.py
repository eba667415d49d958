"""Where forwarded ports listen."""

from __future__ import annotations

import errno
import socket
from urllib.parse import urlsplit

import pytest

from skep_client import forwarding
from skep_client.forwarding import Forward, own_address


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
