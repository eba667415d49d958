"""Who may open /ws/agent, and how all others are turned away."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from tests.support.gateway_agent import Agent, Joined
from tests.support.gateway_server import wait_until
from tests.support.platform_factories import make_gpus, make_inventory
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from skep_agent.frames import LogFrame
from skep_agent.protocol import (
    CLOSE_DUPLICATE,
    CLOSE_PROTOCOL,
    CLOSE_REPLACED,
    CLOSE_SILENT,
    CLOSE_UNAUTHORIZED,
    MAX_TEXT_FRAME,
    Heartbeat,
)
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node, NodeState
from skep_platform.gateway import agent as gateway

LOG = LogFrame("a", "stdout", 0, 0.0, b"x").encode()


@pytest.mark.parametrize("credential", [None, "", "wrong", "skn_" + "x" * 43, "skn_\xff"])
def test_25_a_missing_or_wrong_credential_is_refused_for_good(port, credential):
    Joined()
    with Agent(port, credential) as agent:
        assert agent.end() == ("credential_invalid", CLOSE_UNAUTHORIZED)


def test_25_a_join_token_is_no_credential(port):
    with Agent(port, cluster.create_join_token(None, 60)) as agent:
        assert agent.end() == ("credential_invalid", CLOSE_UNAUTHORIZED)


def test_25_the_credential_of_a_removed_node_is_refused_for_good(port):
    joined = Joined()
    cluster.remove_node(None, joined.node.name)
    with joined.connect(port) as agent:
        assert agent.end() == ("credential_invalid", CLOSE_UNAUTHORIZED)


def test_a_node_that_says_hello_is_welcome_and_online(port):
    joined = Joined(gpus=2)
    with joined.connect(port) as agent:
        welcome, desired = agent.enter(joined.hello)
        assert (welcome.node_name, desired.attempts) == (joined.node.name, [])
        node = Node.objects.get()
        assert (node.state, node.connected) == (NodeState.ONLINE, True)
        assert welcome.session_epoch == node.session_epoch
        assert node.devices.count() == 2
    wait_until(lambda: Node.objects.get().state == NodeState.UNREACHABLE, "called unreachable")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (Heartbeat(seq=1), "hello_missing"),
        (LOG, "hello_missing"),
        ("not json", "frame_not_json"),
        ("[" * 100_000, "frame_not_json"),
        ("[]", "frame_without_type"),
        ('{"type": "hello"}', "frame_invalid"),
        ('{"type": "dance"}', "unknown_message"),
        (b"\x00\x01", "hello_missing"),
    ],
)
def test_26_anything_but_hello_first_is_refused(port, frame, code):
    with Joined().connect(port) as agent:
        agent.send(frame)
        assert agent.end() == (code, CLOSE_PROTOCOL)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"protocol_version": 99}, "protocol_version"),
        ({"inventory": make_inventory(make_gpus("x", 1) * 2)}, "inventory_invalid"),
        ({"inventory": make_inventory(address="\x00")}, "inventory_invalid"),
    ],
)
def test_26_a_hello_that_cannot_be_is_refused(port, changes, code):
    joined = Joined()
    with joined.connect(port) as agent:
        agent.send(joined.hello.model_copy(update=changes))
        assert agent.end() == (code, CLOSE_PROTOCOL)
    assert Node.objects.get().state == NodeState.JOINED


def test_an_agent_that_says_nothing_is_let_go(port, monkeypatch):
    monkeypatch.setattr(gateway, "HELLO_S", 0.05)
    with Joined().connect(port) as agent:
        assert agent.end() == ("hello_missing", CLOSE_SILENT), "it may try again: we may be slow"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("not json", "frame_not_json"),
        ("{}", "frame_without_type"),
        ('{"type": "report", "facts": [{}]}', "frame_invalid"),
        ('{"type": "heartbeat", "seq": "x"}', "frame_invalid"),
        (b"", "log_frame_invalid"),
        (b"\xff\xff\xff\xff", "log_frame_invalid"),
        (b"\x00\x00\x00\x02{}" + b"x", "log_frame_invalid"),
    ],
)
def test_26_garbage_ends_the_session_with_its_typed_error(port, frame, code):
    joined = Joined()
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        agent.send(frame)
        assert agent.end() == (code, CLOSE_PROTOCOL)


def test_a_second_hello_ends_the_session(port):
    joined = Joined()
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        agent.send(joined.hello)
        assert agent.end() == ("hello_again", CLOSE_PROTOCOL)


def test_26_unknown_messages_and_fields_are_ignored(port):
    joined = Joined()
    with joined.connect(port) as agent:
        hello = json.loads(joined.hello.model_dump_json()) | {"new_in_version_2": True}
        agent.send(json.dumps(hello))
        for _ in range(100):
            agent.send('{"type": "from_the_future", "x": 1}')
        assert agent.beat().seq == 1


def test_26_a_frame_larger_than_the_protocol_allows_is_not_read(port):
    joined = Joined()
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        with suppress(ConnectionClosed):  # at times before all of it is sent
            agent.send('{"type": "x", "y": "' + "z" * MAX_TEXT_FRAME + '"}')
        assert agent.end()[1] in (1009, 1006)  # a reset may overtake the close frame
    with joined.connect(port) as agent:
        agent.enter(joined.hello)


def test_25_a_second_agent_with_the_same_credential_is_reported_and_the_first_stays(port):
    joined = Joined()
    with joined.connect(port) as first, joined.connect(port) as thief:
        first.enter(joined.hello)
        thief.send(joined.hello.model_copy(update={"instance_id": "elsewhere"}))
        assert thief.end() == ("agent_duplicate", CLOSE_DUPLICATE)
        assert first.beat()
        assert Node.objects.get().connected


def test_25_a_newer_connection_of_the_same_agent_replaces_the_older(port):
    joined = Joined()
    with joined.connect(port) as old, joined.connect(port) as new:
        before, _ = old.enter(joined.hello)
        after, _ = new.enter(joined.hello)
        assert after.session_epoch > before.session_epoch
        assert old.end() == ("session_fenced", CLOSE_REPLACED)
        assert new.beat()
        assert Node.objects.get().connected  # the old one's end changed nothing


def test_25_a_fenced_session_ends_at_its_next_heartbeat(port):
    """Also when the notification that says so was lost."""
    joined = Joined()
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        Node.objects.update(session_epoch=99)
        agent.send(Heartbeat(seq=1))
        assert agent.end() == ("session_fenced", CLOSE_REPLACED)


def test_25_a_removed_node_is_cut_off_at_once(port):
    joined = Joined()
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        cluster.remove_node(None, joined.node.name)
        assert agent.end() == ("session_fenced", CLOSE_REPLACED)


def test_an_agent_without_heartbeats_is_let_go(port, settings):
    settings.SKEP_LEASE_S = 0.2
    joined = Joined()
    with joined.connect(port) as agent:
        agent.send(joined.hello)
        assert agent.end() == ("heartbeat_missing", 4408)


def test_there_is_nothing_at_other_paths(port):
    with (
        pytest.raises(InvalidStatus) as caught,
        connect(f"ws://127.0.0.1:{port}/ws/other", proxy=None),
    ):
        pass
    assert caught.value.response.status_code == 403
