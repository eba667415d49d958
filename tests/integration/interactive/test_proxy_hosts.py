"""The hosts of apps: what reaches an app, what reaches the platform, and that they never mix."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync

from skep_platform.interactive.proxy import Proxy

DOMAIN, APP = "apps.example.net", "label.apps.example.net"
OWN = {"origin": f"https://{APP}"}


@pytest.fixture(autouse=True)
def _domain(settings: Any) -> None:
    settings.SKEP_APPS_URL = f"https://{DOMAIN}"
    settings.SKEP_PUBLIC_URL = "https://skep.example.org"


def answered(host: str, path: str = "/", kind: str = "http", **headers: str) -> tuple[str, int]:
    """Return who answered a request without a cookie, "elsewhere" or "proxy", and the status."""
    found: list[tuple[str, int]] = []

    async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
        found.append(("elsewhere", 0))

    async def send(message: Any) -> None:
        if "status" in message:
            found.append(("proxy", message["status"]))

    listed = [(b"host", host.encode())]
    listed += [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": kind,
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": listed,
        "scheme": "https" if kind == "http" else "wss",
        "client": ("10.0.0.9", 1),
        "extensions": {"websocket.http.response": {}},
    }
    async_to_sync(Proxy(elsewhere))(scope, None, send)
    (one,) = found
    return one


@pytest.mark.parametrize(
    "path",
    [
        *("/api/v1/me", "/../api/v1/me", "/%2e%2e/api/v1/me", "/..%2fapi/v1/me", "//api/v1/me"),
        *("/healthz", "/readyz", "/ws/live", "/proxy/../../api/v1/me", "/_skep/../api/v1/me"),
        *("/_skep/login/../../api/v1/me", "/_skep/", "/_SKEP/login", "/\\..\\api"),
    ],
)
def test_17_hosts_of_apps_serve_nothing_of_the_platform(path):
    """However a path is spelled: without the login of this app there is a refusal."""
    who, status = answered(APP, path)
    assert who == "proxy"
    assert status in (401, 403, 404)


@pytest.mark.parametrize(
    "host",
    [
        *(DOMAIN, "skep.example.org", f"{APP}.evil.example", f"a.{APP}", f"{APP}:443@evil.example"),
        *(f"{APP}.", f"label.{DOMAIN}:8443", f"evil.example/{APP}", f"labelx{DOMAIN}", ""),
    ],
)
def test_17_no_other_host_name_is_taken_for_that_of_an_app(host):
    assert answered(host) == ("elsewhere", 0)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 401),  # the own page, without a login
        ({}, 403),
        ({"origin": "https://skep.example.org"}, 403),
        ({"origin": f"https://other.{DOMAIN}"}, 403),
        ({"origin": f"http://{APP}"}, 403),
        ({"origin": "null"}, 403),
        ({**OWN, "cookie": "sessionid=abc; skep_session=abc"}, 401),
        ({**OWN, "authorization": "Bearer skt_" + "a" * 64}, 401),
    ],
)
def test_17_no_websocket_is_opened_without_the_login_of_its_app(headers, status):
    assert answered(APP, "/kernel", "websocket", **headers) == ("proxy", status)
