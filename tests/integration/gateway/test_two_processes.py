"""Web server and gateway apart: who serves what, and how agents that know only the web address get
to the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from tests.support.gateway_agent import Agent, Joined
from tests.support.gateway_server import ThreadServer, wait_until
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from skep_agent.protocol import CLOSE_UNAUTHORIZED
from skep_platform.asgi import application as web_application
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node
from skep_platform.gateway import forwarding
from skep_platform.gateway.asgi import application as gateway_application


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[ThreadServer, ThreadServer]]:
    with ThreadServer(web_application) as web, ThreadServer(gateway_application) as gateway:
        yield web, gateway


@pytest.fixture
def ports(servers, transactional_db, settings) -> Iterator[tuple[int, int]]:
    """Of the web server and the gateway."""
    web, gateway = servers
    settings.SKEP_GATEWAY_BACKEND = f"http://127.0.0.1:{gateway.port}"
    settings.SKEP_GATEWAY_URL = f":{gateway.port}"
    yield web.port, gateway.port
    for server in servers:
        wait_until(lambda s=server: not s.server.server_state.tasks, "every connection ended")


def test_an_agent_at_the_gateway_is_given_no_other_address(ports):
    joined = Joined(gpus=1)
    with joined.connect(ports[1]) as agent:
        welcome, _ = agent.enter(joined.hello)
        assert welcome.gateway_url == ""


def test_an_agent_that_knows_the_web_address_is_passed_on_and_given_the_gateways(ports):
    joined = Joined(gpus=1)
    with joined.connect(ports[0]) as agent:
        welcome, desired = agent.enter(joined.hello)
        assert welcome.gateway_url == f"http://127.0.0.1:{ports[1]}"
        assert desired.attempts == []
        assert agent.beat().seq == 1
        assert Node.objects.get().connected
    wait_until(lambda: not Node.objects.get().connected, "its end is passed on")


def test_frames_of_any_size_pass_and_close_codes_come_back(ports):
    joined = Joined()
    with joined.connect(ports[0]) as agent:
        agent.enter(joined.hello)
        agent.send(json.dumps({"type": "of-the-future", "padding": "x" * 4_000_000}))
        assert agent.beat().seq == 1
    with Agent(ports[0], "wrong") as agent:
        assert agent.end() == ("credential_invalid", CLOSE_UNAUTHORIZED)


def test_a_join_answers_with_the_gateways_address_by_the_name_that_was_used(ports):
    body = {"token": cluster.create_join_token(None, 60), "name": "n1", "instance_id": "i"}
    for port, name in zip(ports, ("127.0.0.1", "localhost"), strict=True):
        url = f"http://{name}:{port}/api/v1/nodes/join"
        token = cluster.create_join_token(None, 60)
        answer = httpx.post(url, json=body | {"token": token}, timeout=60)
        assert answer.json()["gateway_url"] == f"http://{name}:{ports[1]}", answer.text


def test_the_gateway_has_nothing_for_people(ports):
    base = f"http://127.0.0.1:{ports[1]}"
    assert httpx.get(f"{base}/healthz", timeout=60).status_code == 200
    assert httpx.get(f"{base}/readyz", timeout=60).status_code == 200
    for method, path in (
        *(("GET", "/"), ("GET", "/api/v1/jobs"), ("POST", "/api/v1/jobs"), ("POST", "/healthz")),
        *(("GET", "/api/v1/openapi"), ("POST", "/api/v1/jobs/convert")),
        *(("GET", "/api/v1/nodes/join"), ("POST", "/api/v1/auth/token")),
    ):
        answer = httpx.request(method, f"{base}{path}", timeout=60)
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_route"), path
    for path in ("/ws/live", "/ws/attempts/01a1fc1d-6332-711d-8f5a-8c98a6360c4c/exec"):
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://127.0.0.1:{ports[1]}{path}", proxy=None)
        assert refused.value.response.status_code == 403


def test_without_a_gateway_an_agent_is_asked_to_come_again(ports, settings):
    settings.SKEP_GATEWAY_BACKEND = "http://127.0.0.1:1"
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{ports[0]}/ws/agent", proxy=None)
    assert refused.value.response.status_code == 503
    assert json.loads(refused.value.response.body)["code"] == "gateway_away"


def test_finding_s19_no_one_but_the_web_server_says_whose_connection_it_is(ports, settings):
    """A forged statement, an old one, and headers of proxies that are not ours."""
    seen: list[dict] = []

    async def app(scope, receive, send):
        seen.append(scope)

    async def ask(**headers: str) -> dict:
        found = [(b"host", b"real:1"), *((k.encode(), v.encode()) for k, v in headers.items())]
        scope = {"type": "websocket", "scheme": "ws", "client": ("10.9.9.9", 1), "headers": found}
        await forwarding.Forwarded(app)(scope, None, None)
        return seen.pop()

    from asgiref.sync import async_to_sync

    name = forwarding.HEADER.decode()
    scope = {"client": ("10.1.1.1", 5), "scheme": "wss", "headers": [(b"host", b"skep.org")]}
    true = forwarding.statement(scope)
    asked = async_to_sync(ask)(**{name: true})
    assert asked["forwarded"]
    assert (asked["client"][0], asked["scheme"]) == ("10.1.1.1", "wss")
    assert dict(asked["headers"]) == {b"host": b"skep.org"}
    altered = true[:-1] + ("B" if true.endswith("A") else "A")
    for forged in ("[]", "x", altered, true + ":x", "\xff"):
        asked = async_to_sync(ask)(**{name: forged, "x-forwarded-for": "10.1.1.1"})
        assert not asked["forwarded"]
        assert (asked["client"][0], asked["scheme"]) == ("10.9.9.9", "ws")
        assert name.encode() not in dict(asked["headers"])
