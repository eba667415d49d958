"""A web program in a job, opened through the proxy of apps by real servers, agent and engine."""

from __future__ import annotations

from pathlib import Path
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.apps_browser import FETCH, NAVIGATION, Browser
from tests.support.stack import Stack
from tests.support.stack_jobs import gang, until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

pytestmark = [pytest.mark.stack, pytest.mark.docker]

PROGRAM = (Path(__file__).parents[1] / "support" / "tiny_app.py").read_text()
PASSWORD = "a-long-password-of-tests"
APP = {"name": "tiny", "type": "web", "port": 8000, "path": "/"}


@pytest.fixture(scope="module")
def people(skep: Stack) -> dict[str, Browser]:
    """The owner, a colleague in the same virtual cluster, and a user of another one."""
    with skep.api() as api:
        api.put("/virtual-clusters/default/limits/submits_per_minute", json={"value": 1000})
        for name in ("apps-owner", "apps-colleague", "apps-stranger"):
            made = api.post("/users", json={"username": name, "password": PASSWORD})
            assert made.status_code == 201, made.text
        for name in ("apps-owner", "apps-colleague"):
            put = api.put(f"/virtual-clusters/default/members/{name}", json={"role": "member"})
            assert put.status_code in (200, 201, 204), put.text
    return {
        name: Browser(skep, f"apps-{name}", PASSWORD) for name in ("owner", "colleague", "stranger")
    }


@pytest.fixture(scope="module")
def app(skep: Stack, people: dict[str, Browser], python_image: str) -> dict[str, Any]:
    script = f"cat > /tmp/app.py <<'END'\n{PROGRAM}\nEND\nexec python3 /tmp/app.py 8000"
    file = gang(python_image, script, tasks=1, gpus=0, extras={"skep": {"apps": [APP]}})
    answer = people["owner"].post("/api/v1/jobs", file)
    assert answer.status_code == 201, answer.text
    owner = people["owner"]

    def ready() -> dict[str, Any] | None:
        [found] = owner.platform.get(f"/api/v1/jobs/{answer.json()['id']}/apps").json()["results"]
        assert found["state"] != "ended", found
        return found if found["state"] == "ready" else None

    return until(ready)


def test_17_an_app_is_opened_by_a_code_and_gets_no_credential_of_the_platform(people, app):
    owner = people["owner"]
    host = urlsplit(app["url"]).netloc

    page = owner.enter(app, "/some/page?q=1")

    assert (page.status_code, "A tiny app" in page.text) == (200, True)
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
    owner.cookies[host]["_xsrf"] = "its-own"
    given = {**FETCH, "Authorization": "Bearer x", "X-Forwarded-For": "1.1.1.1", "X-Skep-User": "x"}
    seen = dict(owner.request(app["url"], "/headers", headers=given).json())
    assert seen["cookie"] == "_xsrf=its-own"
    assert "authorization" not in {name.lower() for name in seen}
    assert (seen["host"], seen["x-forwarded-proto"]) == (host, "http")
    assert (seen["x-forwarded-for"], seen["x-skep-user"]) == ("127.0.0.1", "apps-owner")


def test_17_an_app_cannot_set_cookies_for_other_hosts_nor_replace_the_login(people, app):
    owner = people["owner"]
    owner.enter(app)

    answer = owner.request(app["url"], "/cookie")

    assert answer.headers.get_list("set-cookie") == ["mine=1; Path=/"]
    assert "clear-site-data" not in answer.headers
    assert owner.request(app["url"], "/headers").status_code == 200


def test_bodies_of_any_size_pass_both_ways(people, app):
    owner = people["owner"]
    owner.enter(app)
    data = bytes(range(256)) * 4096 * 3

    sent = owner.request(app["url"], "/echo", "POST", content=data)
    chunked = owner.request(app["url"], "/echo", "POST", content=iter([data[:5], data[5:]]))
    streamed = owner.request(app["url"], "/stream?n=9000001")

    assert sent.content == data
    assert chunked.content == data
    assert len(streamed.content) == 9_000_001


def test_17_websockets_pass_both_ways_and_only_from_the_apps_own_pages(people, app, skep):
    owner = people["owner"]
    owner.enter(app)
    host = urlsplit(app["url"]).netloc
    address = f"ws://{host}/kernel?x=1"
    headers = owner.socket_headers(app)
    port = urlsplit(skep.apps_url).port

    def opened(origin: str | None, more: dict[str, str]) -> Any:
        return connect(
            address,
            sock=create_connection(("127.0.0.1", port)),
            origin=origin,
            additional_headers=more,
            proxy=None,
        )

    with opened(app["url"], headers) as socket:
        socket.send("text")
        assert socket.recv(timeout=30) == "text"
        socket.send(b"\x00" * 300_000)
        assert socket.recv(timeout=30) == b"\x00" * 300_000
    for origin, more, status in (
        (skep.url, headers, 403),
        (None, headers, 403),
        (app["url"].replace(app["url"].split(".")[0], "http://other"), headers, 403),
        (app["url"], {}, 401),
    ):
        with pytest.raises(InvalidStatus) as refused:
            opened(origin, more)
        assert refused.value.response.status_code == status


def test_a_code_works_once_for_one_browser_and_one_app(people, app):
    owner = people["owner"]
    state = owner.to_login(app)
    code = urlsplit(owner.code_for(app, state).json()["url"])
    address = f"{code.path}?{code.query}"
    host = urlsplit(app["url"]).netloc
    mine, owner.cookies[host] = owner.cookies[host], {}

    stolen = owner.request(app["url"], address, headers=NAVIGATION)
    owner.cookies[host] = dict(mine)
    first = owner.request(app["url"], address, headers=NAVIGATION)
    owner.cookies[host] = dict(mine)
    again = owner.request(app["url"], address, headers=NAVIGATION)

    assert (stolen.status_code, first.status_code, again.status_code) == (403, 303, 403)


def test_pages_of_other_origins_cannot_use_the_cookie(people, app):
    owner = people["owner"]
    owner.enter(app)
    other = app["url"].replace("//", "//x")

    for headers in (
        {"Origin": other, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {**NAVIGATION, "Sec-Fetch-Dest": "iframe"},
    ):
        answer = owner.request(app["url"], "/headers", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")
    posted = owner.request(app["url"], "/echo", "POST", headers={"Origin": other}, content=b"x")
    assert posted.status_code == 403


def test_only_the_owner_opens_it_until_it_is_shared(people, app):
    owner, colleague, stranger = (people[n] for n in ("owner", "colleague", "stranger"))
    path = f"/api/v1/apps/{app['id']}"

    for person in (colleague, stranger):
        assert person.code_for(app, person.to_login(app)).status_code == 404
    _share(owner, path, True)
    assert colleague.enter(app).status_code == 200
    assert stranger.code_for(app, stranger.to_login(app)).status_code == 404

    _share(owner, path, False)

    until(lambda: colleague.request(app["url"], "/headers").status_code == 401, 30)


def _share(owner: Browser, path: str, shared: bool) -> None:
    token = owner.platform.cookies["skep_csrf"]
    headers = {"X-CSRFToken": token, "Origin": owner.skep.url, "Referer": owner.skep.url}
    answer = owner.platform.patch(path, json={"shared": shared}, headers=headers)
    assert answer.status_code == 200, answer.text


def test_a_logout_ends_the_login_at_the_app_and_its_open_sockets(skep, people, app):
    leaving = Browser(skep, "apps-owner", PASSWORD)
    leaving.enter(app)
    host, port = urlsplit(app["url"]).netloc, urlsplit(skep.apps_url).port
    headers = leaving.socket_headers(app)
    with connect(
        f"ws://{host}/",
        sock=create_connection(("127.0.0.1", port)),
        origin=app["url"],
        additional_headers=headers,
        proxy=None,
    ) as socket:
        socket.send("x")
        socket.recv(timeout=30)
        assert leaving.post("/api/v1/auth/logout", {}).status_code in (200, 204)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401
    assert leaving.request(app["url"], "/headers").status_code == 401


def test_the_audit_log_knows_who_opened_it(skep, api, app):
    entries = api.get("/audit", params={"action": "app.open"}).json()["results"]
    names = {entry["actor"]["name"] for entry in entries}
    assert {"apps-owner", "apps-colleague"} <= names
