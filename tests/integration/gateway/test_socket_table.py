"""Every WebSocket of the web server and of the gateway against every kind of caller, from the
routing tables themselves.

A route that has no row in `EXPECTED` fails: whoever adds one says here who may use it. An entry is
the code with which the socket ends: "403" before it is accepted, "ok" for a caller who got past
every check of who it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from tests.support.gateway_agent import Agent, Joined
from tests.support.gateway_live import Page, login
from tests.support.gateway_streams import Node, Person, token_of
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from skep_platform.accounts import services as accounts
from skep_platform.accounts.models import Scope, User
from skep_platform.cluster import services as cluster
from skep_platform.gateway import routing

# The columns. The job is the owner's, in a virtual cluster of all but the stranger and the admin;
# "site" is a page of another site in the owner's browser, "node" has the credential of an agent.
CALLERS = [
    *("anonymous", "forged", "stranger", "viewer", "colleague", "vc_admin", "owner", "admin"),
    *("reader", "browser", "site", "node", "join_token"),
]


def row(*expected: str) -> dict[str, str]:
    return dict(zip(CALLERS, expected, strict=True))


OUT, NONE, SMALL = "not_authenticated", "not_found", "scope_too_small"
# The owner's, and the admin's; no one else's, not even the VC admin's, who may stop the job.
REACHES_IN = row(
    *(
        "403",
        OUT,
        NONE,
        NONE,
        NONE,
        "forbidden",
        "ok",
        "ok",
        "scope_too_small",
        "ok",
        "403",
        OUT,
        OUT,
    )
)
SEES = row(*("403", OUT, NONE, NONE, NONE, "ok", "ok", "ok", "ok", "ok", "403", OUT, OUT))
AGENTS = row(*["credential_invalid"] * 11, "ok", "credential_invalid")
EXPECTED = {
    "ws/attempts/<id>/exec": REACHES_IN,
    "ws/attempts/<id>/forward": REACHES_IN,
    "ws/live": SEES,
    "ws/agent": AGENTS,
    # An agent, too, dials only what it was asked to: 4404 for every other id.
    "ws/agent/streams/<id>": row(*["4401"] * 11, "4404", "4401"),
}


@dataclass
class World:
    port: int
    users: dict[str, User]
    attempt: Any
    node: Joined

    def known(self, caller: str) -> dict[str, Any]:
        """Return the credential of a caller, as the sockets of people take it."""
        if caller == "anonymous":
            return {}
        if caller in ("browser", "site"):
            return {"session": self.users["owner"]}
        return {"token": self.token(caller)}

    def token(self, caller: str) -> str:
        if caller in ("anonymous", "browser", "site"):
            return ""
        if caller == "reader":
            return accounts.create_token(self.users["owner"], scope=Scope.READ)[1]
        if caller == "node":
            return self.node.credential
        if caller == "join_token":
            return cluster.create_join_token(None, 60)
        return "skt_" + "a" * 64 if caller == "forged" else token_of(self.users[caller])

    def origin(self, caller: str) -> str | None:
        return "https://evil.example" if caller == "site" else None


def reach(world: World, caller: str, forward: int | None = None) -> str:
    """A shell or a port. No node is connected: who gets that answer passed every check."""
    known = world.known(caller)
    user = known.pop("session", None)
    with Person(
        world.port,
        world.attempt.pk,
        user,
        forward=forward,
        session=user is not None,
        origin=world.origin(caller),
        **known,
    ) as person:
        if forward is None:
            person.ask("true")
        code, _ = person.end()
        return "ok" if code == "node_unreachable" else code


def watch(world: World, caller: str) -> str:
    known = world.known(caller)
    if "session" in known:
        known["session"] = login(known["session"])
    with Page(world.port, origin=world.origin(caller), **known) as page:
        page.send(subscribe="job", id=str(world.attempt.job_id))
        message = page.receive()
        return "ok" if message["type"] == "subscribed" else message["code"]


def serve(world: World, caller: str) -> str:
    with Agent(world.port, world.token(caller)) as agent:
        if caller == "node":
            agent.enter(world.node.hello)
            return "ok"
        return agent.end()[0]


def dial(world: World, caller: str) -> str:
    with Node(world.port, str(uuid4()), world.token(caller)) as node:
        return str(node.end()[1])


ASK: dict[str, Callable[[World, str], str]] = {
    "ws/attempts/<id>/exec": reach,
    "ws/attempts/<id>/forward": lambda world, caller: reach(world, caller, 8888),
    "ws/live": watch,
    "ws/agent": serve,
    "ws/agent/streams/<id>": dial,
}


@pytest.fixture
def world(port: int) -> World:
    names = ("stranger", "viewer", "colleague", "vc_admin", "owner", "admin")
    users = {name: make_user(name, admin=name == "admin") for name in names}
    members = [users["owner"], users["colleague"]]
    team = make_vc(members=members, vc_admins=[users["vc_admin"]], viewers=[users["viewer"]])
    make_vc(vc_admins=[users["stranger"]])
    node = make_node(gpus=1)
    job = make_job(team, users["owner"], state="RUNNING", attempt=1)
    attempt = place(job, list(node.devices.all()), state="RUNNING")
    cluster.Node.objects.filter(pk=node.pk).update(connected=False)
    return World(port, users, attempt, Joined())


def routes() -> set[str]:
    """Every path of both routing tables but the last of each, which refuses all others."""
    tables = (routing.people.routes, routing.agents.routes)
    assert all(str(table[-1].pattern) == "" for table in tables)
    paths = {str(route.pattern) for table in tables for route in table[:-1]}
    return {re.sub(r"<[^>]*>", "<id>", path) for path in paths}


def test_20_every_socket_says_who_may_use_it():
    assert routes() == EXPECTED.keys() == ASK.keys()


@pytest.mark.parametrize("path", sorted(EXPECTED))
def test_20_socket_refuses_whom_it_must(world, path):
    found = {}
    for caller in CALLERS:
        try:
            found[caller] = ASK[path](world, caller)
        except InvalidStatus as refused:
            found[caller] = str(refused.response.status_code)
    assert found == EXPECTED[path]


@pytest.mark.parametrize("path", ["/", "/ws", "/ws/", "/ws/other", "/ws/live/", "/api/v1/jobs"])
def test_20_there_is_no_other_socket(port, path):
    headers = {"Authorization": f"Bearer {token_of(make_user(admin=True))}"}
    with pytest.raises(InvalidStatus) as caught:
        connect(f"ws://127.0.0.1:{port}{path}", additional_headers=headers, proxy=None)
    assert caught.value.response.status_code == 403
