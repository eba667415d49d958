"""Reaching into a running task: bytes both ways through two ends that never meet."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.gateway_agent import Agent, Joined
from tests.support.gateway_live import login
from tests.support.gateway_rows import running_attempt
from tests.support.gateway_server import ProcessServer, wait_until
from tests.support.gateway_streams import Node, Person, token_of
from tests.support.platform_factories import make_user
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from skep_agent.frames import Channel
from skep_agent.protocol import OpenStream
from skep_platform.accounts.models import ApiToken
from skep_platform.audit.models import AuditEntry
from skep_platform.core.models import Event
from skep_platform.core.notifications import valkey
from skep_platform.gateway import relay, streams
from skep_platform.gateway.live import visible_jobs
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import AttemptState
from skep_platform.tenancy.models import Membership, Role

OWN = {"ssh": [20001], "http": [20002]}


class World:
    """A connected node that runs one task, and the task's owner."""

    def __init__(self, port: int, agent: Agent, joined: Joined, **attempt: Any) -> None:
        self.port, self.agent, self.joined = port, agent, joined
        self.attempt = running_attempt(joined.node, gpus=0, **attempt)
        self.owner = self.attempt.job.owner

    def person(self, user: Any = None, *, port: int = 0, **options: Any) -> Person:
        return Person(port or self.port, self.attempt.pk, user or self.owner, **options)

    def node(self, order: OpenStream, port: int = 0) -> Node:
        return Node(port or self.port, order.stream_id, self.joined.credential)

    def dialled(self, port: int = 0) -> Node:
        """The node does what it is asked next."""
        return self.node(self.agent.expect(OpenStream), port)

    @contextmanager
    def shell(self, *argv: str, node_port: int = 0) -> Iterator[tuple[Person, Node]]:
        """Both ends, once they are joined: who leaves before that was never there."""
        with self.person() as person:
            person.ask(*argv)
            order = self.agent.expect(OpenStream)
            with self.node(order, node_port) as node:
                stream = f"skep:stream:{order.stream_id}"
                wait_until(lambda: valkey().hexists(stream, "dialled"), "the node has dialled")
                yield person, node


@pytest.fixture
def world(port: int) -> Iterator[World]:
    joined = Joined()
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        yield World(port, agent, joined, ports=OWN)


class TestBytes:
    def test_a_shell_from_its_first_byte_to_its_exit(self, world):
        with world.person() as person:
            person.ask("sh", "-l", tty=True, rows=50, cols=120)
            order = world.agent.expect(OpenStream)
            assert (order.kind, order.argv, order.tty) == ("exec", ["sh", "-l"], True)
            assert (order.rows, order.cols, order.port) == (50, 120, 0)
            assert order.attempt_id == str(world.attempt.pk)
            with world.node(order) as node:
                person.send(Channel.INPUT, b"echo hi\n")
                assert node.receive() == (Channel.INPUT, b"echo hi\n")
                person.send(Channel.CONTROL, {"resize": [10, 20]})
                assert node.control() == {"resize": [10, 20]}
                node.send(Channel.OUTPUT, b"hi\n")
                node.send(Channel.ERROR, b"\xff\x00")
                node.send(Channel.CONTROL, {"exit": 3})
            assert person.receive() == (Channel.OUTPUT, b"hi\n")
            assert person.receive() == (Channel.ERROR, b"\xff\x00")
            assert person.control() == {"exit": 3}
            assert person.end() == ("", 1000)

    def test_a_connection_to_a_port(self, world):
        with world.person(forward=8888) as person:
            order = world.agent.expect(OpenStream)
            assert (order.kind, order.port) == ("forward", 8888)
            with world.node(order) as node:
                person.send(Channel.INPUT, b"GET /")
                assert node.receive() == (Channel.INPUT, b"GET /")
                person.send(Channel.CONTROL, {"eof": True})
                assert node.control() == {"eof": True}
                node.send(Channel.OUTPUT, b"200")
            assert person.receive() == (Channel.OUTPUT, b"200")
            assert person.end() == ("", 1000)

    @settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        up=st.lists(st.integers(1, 150_000), max_size=6),
        down=st.lists(st.integers(1, 300_000), max_size=6),
        seed=st.integers(0, 2**32),
    )
    def test_bytes_arrive_complete_and_in_order_however_they_are_cut(self, world, up, down, seed):
        rng = random.Random(seed)
        sent_up, sent_down = ([rng.randbytes(n) for n in sizes] for sizes in (up, down))
        with world.shell() as (person, node), ThreadPoolExecutor(4) as pool:
            read_up = pool.submit(node.read, Channel.INPUT, sum(up))
            read_down = pool.submit(person.read, Channel.OUTPUT, sum(down))
            writes = [
                pool.submit(lambda: [person.send(Channel.INPUT, data) for data in sent_up]),
                pool.submit(lambda: [node.send(Channel.OUTPUT, data) for data in sent_down]),
            ]
            for write in writes:
                write.result(60)
            assert read_up.result(60) == b"".join(sent_up)
            assert read_down.result(60) == b"".join(sent_down)

    def test_what_was_sent_before_the_end_arrives_though_the_other_side_still_writes(self, world):
        with world.shell() as (person, node):
            data = random.Random(1).randbytes(600_000)
            node.send(Channel.OUTPUT, data)
            node.send(Channel.CONTROL, {"exit": 0})
            node.socket.close()
            for _ in range(50):  # someone types on
                person.send(Channel.INPUT, b"x")
            assert person.read(Channel.OUTPUT, len(data)) == data
            assert person.control() == {"exit": 0}
            assert person.end() == ("", 1000)

    def test_two_servers_and_the_agents_session_at_a_third(self, port):
        joined = Joined()
        with ProcessServer() as one, ProcessServer() as other, joined.connect(port) as agent:
            agent.enter(joined.hello)
            world = World(port, agent, joined)
            with world.person(port=one.port) as person:
                person.ask()
                with world.dialled(other.port) as node:
                    data = random.Random(2).randbytes(3_000_000)
                    with ThreadPoolExecutor(1) as pool:
                        echo = pool.submit(_echo, node, len(data))
                        for start in range(0, len(data), 100_000):
                            part = data[start : start + 100_000]
                            person.send(Channel.INPUT, part)
                            assert person.read(Channel.OUTPUT, len(part)) == part
                        echo.result(60)


def _echo(node: Node, size: int) -> None:
    while size > 0:
        _, data = node.receive()
        node.send(Channel.OUTPUT, data)
        size -= len(data)


class TestFlow:
    def test_a_reader_that_stops_stops_the_writer_and_bounds_memory(self, world):
        with world.shell() as (person, node):
            written = 0
            piece = bytes(64 * 1024)
            stuck = threading.Event()

            def write() -> None:
                nonlocal written
                while written < 64 * 1024 * 1024:
                    node.send(Channel.OUTPUT, piece)
                    written += len(piece)
                stuck.set()

            writer = threading.Thread(target=write)
            writer.start()
            wait_until(lambda: _under_way() > relay.WINDOW // 2, "the window fills")
            seen = _stable(lambda: written)
            assert not stuck.is_set()
            assert seen < 32 * 1024 * 1024  # buffers of sockets, and the window
            assert _under_way() <= relay.WINDOW
            person.read(Channel.OUTPUT, 64 * 1024 * 1024)  # all of it, now that someone reads
            writer.join(60)
            assert stuck.is_set()


def _under_way() -> int:
    return sum(
        int(size or 0)
        for key in valkey().scan_iter("skep:stream:*")
        if valkey().type(key) == b"hash"
        for size in valkey().hmget(key, "up", "down")
    )


def _stable(value: Any) -> int:
    """Once it does not move for a second."""
    known, since = value(), 0
    while since < 20:
        threading.Event().wait(0.05)
        now = value()
        known, since = (now, since + 1) if now == known else (now, 0)
    return known


class TestEnds:
    def test_the_node_receives_that_the_person_left(self, world):
        others = set(valkey().scan_iter("skep:stream:*"))  # of a test whose sockets still close
        with world.shell() as (person, node):
            person.send(Channel.INPUT, b"last")
            person.socket.close()
            assert node.receive() == (Channel.INPUT, b"last")
            assert node.end() == ("", 1000)
        wait_until(lambda: set(valkey().scan_iter("skep:stream:*")) <= others, "it is forgotten")

    def test_a_person_receives_that_the_node_vanished(self, world):
        with world.shell() as (person, node):
            node.send(Channel.OUTPUT, b"so far")
            node.socket.socket.shutdown(2)
            assert person.receive() == (Channel.OUTPUT, b"so far")
            assert person.end() == ("stream_lost", 4503)

    def test_a_killed_server_ends_the_stream_on_the_other_side(self, port, monkeypatch):
        joined = Joined()
        with ProcessServer() as one, ProcessServer() as other, joined.connect(port) as agent:
            agent.enter(joined.hello)
            world = World(port, agent, joined)
            for killed, asks_at, dials_at in ((one, one.port, port), (other, port, other.port)):
                with world.person(port=asks_at) as person:
                    person.ask()
                    with world.dialled(dials_at) as node:
                        node.send(Channel.OUTPUT, b"x")
                        person.receive()
                        killed.kill()
                        if killed is other:
                            assert person.end() == ("stream_lost", 4503)
                            break
                        with pytest.raises(ConnectionClosed) as closed:
                            node.receive()
                        assert closed.value.rcvd.code == 4410

    def test_an_emptied_broker_ends_the_stream(self, world):
        with world.shell() as (person, node):
            node.send(Channel.OUTPUT, b"x")
            person.receive()
            valkey().flushdb()
            assert person.end() == ("stream_lost", 4503)
            with pytest.raises(ConnectionClosed):
                node.receive()

    def test_an_agent_that_does_not_dial_is_not_waited_for_long(self, world, monkeypatch):
        monkeypatch.setattr(relay, "DIAL_S", 0.5)
        with world.person() as person:
            person.ask()
            world.agent.expect(OpenStream)
            assert person.end() == ("node_silent", 4503)

    def test_who_leaves_before_the_agent_dials_is_not_waited_for(self, world):
        with world.person() as person:
            person.ask()
            order = world.agent.expect(OpenStream)
        wait_until(lambda: not list(valkey().scan_iter("skep:stream:*")), "it is forgotten")
        with world.node(order) as node:
            assert node.end() == ("", 4404)

    def test_what_is_typed_before_the_agent_dials_arrives(self, world):
        with world.person() as person:
            person.ask()
            person.send(Channel.INPUT, b"early")
            with world.dialled() as node:
                assert node.receive() == (Channel.INPUT, b"early")

    def test_a_silent_stream_ends(self, world, monkeypatch):
        monkeypatch.setattr(streams, "IDLE_S", 0.5)
        with world.person() as person:
            person.ask()
            with world.dialled():  # or not by then
                assert person.end() == ("idle", 1000)


class TestRights:
    def test_only_the_owner_and_admins(self, world):
        colleague, stranger, admin = make_user(), make_user(), make_user(admin=True)
        Membership.objects.create(vc=world.attempt.job.vc, user=colleague)
        refused = {colleague: ("not_found", 4404), stranger: ("not_found", 4404)}
        for user, answer in refused.items():
            with world.person(user) as person:
                person.ask()
                assert person.end() == answer
        with world.person(admin) as person:
            person.ask()
            assert world.agent.expect(OpenStream).attempt_id == str(world.attempt.pk)

    def test_a_vc_admin_of_the_team_may_stop_but_not_look_inside(self, world):
        vc_admin = make_user()
        vc = world.attempt.job.vc
        Membership.objects.create(vc=vc, user=vc_admin, role=Role.ADMIN)
        with world.person(vc_admin) as person:
            person.ask()
            assert person.end() == ("forbidden", 4403)

    def test_20_no_one_gets_in_without_a_login(self, world):
        with world.person(token="skt_" + "a" * 64) as person:
            person.ask()
            assert person.end() == ("not_authenticated", 4401)
        with pytest.raises(InvalidStatus):  # neither a token nor a page of ours
            Person(world.port, world.attempt.pk).__enter__()

    def test_20_a_page_of_another_site_cannot_use_a_cookie(self, world):
        with pytest.raises(InvalidStatus):
            world.person(session=True, origin="https://evil.example").__enter__()
        with world.person(session=True) as person:
            person.ask()
            world.agent.expect(OpenStream)

    def test_20_a_revoked_token_ends_the_stream(self, world):
        with world.person(token=token_of(world.owner)) as person:
            person.ask()
            with world.dialled() as node:
                node.send(Channel.OUTPUT, b"x")
                person.receive()
                ApiToken.objects.get(user=world.owner).delete()
                assert person.end() == ("not_authenticated", 4401)
                assert node.end() == ("", 1000)

    def test_20_a_logout_ends_the_stream(self, world):
        session = login(world.owner)
        origin = f"http://127.0.0.1:{world.port}"
        headers = {"Cookie": f"skep_session={session.session_key}", "Origin": origin}
        path = f"ws://127.0.0.1:{world.port}/ws/attempts/{world.attempt.pk}/exec"
        with connect(path, additional_headers=headers, proxy=None, open_timeout=60) as socket:
            socket.send("{}")
            with world.dialled() as node:
                node.send(Channel.OUTPUT, b"x")
                socket.recv(timeout=60)
                session.delete()
                assert node.end() == ("", 1000)

    def test_who_leaves_the_team_is_put_out(self, world):
        with world.shell() as (person, node):
            node.send(Channel.OUTPUT, b"x")
            person.receive()
            Membership.objects.get(user=world.owner).delete()
            job_id = str(world.attempt.job_id)
            assert visible_jobs(world.owner, {job_id}) == {job_id}  # its owner may still read it
            assert person.end() == ("forbidden", 4403)

    def test_who_is_a_viewer_by_now_may_not_look_inside(self, world):
        Membership.objects.filter(user=world.owner).update(role=Role.VIEWER)
        with world.person() as person:
            person.ask()
            assert person.end() == ("forbidden", 4403)

    def test_only_running_tasks_of_connected_nodes(self, world):
        TaskAttempt.objects.filter(pk=world.attempt.pk).update(state=AttemptState.PREPARING)
        with world.person() as person:
            person.ask()
            assert person.end() == ("not_running", 4409)
        TaskAttempt.objects.filter(pk=world.attempt.pk).update(state=AttemptState.RUNNING)
        world.attempt.node.__class__.objects.update(connected=False)
        with world.person() as person:
            person.ask()
            assert person.end() == ("node_unreachable", 4409)

    def test_on_the_nodes_own_network_only_its_own_ports(self, world):
        TaskAttempt.objects.filter(pk=world.attempt.pk).update(network="host")
        with world.person(forward=22) as person:
            assert person.end() == ("port_not_allowed", 4403)
        with world.person(forward=20002):
            assert world.agent.expect(OpenStream).port == 20002

    @pytest.mark.parametrize("number", ["", "0", "65536", "-1", "http", "²", "99999999999999999"])
    def test_a_port_is_a_number_of_a_port(self, world, number):
        with world.person(forward=number) as person:
            assert person.end() == ("port_invalid", 4400)

    @pytest.mark.parametrize(
        "ask",
        [
            *("", "[]", "null", '{"argv": "sh"}', '{"argv": [1]}', '{"argv": ["\\u0000"]}'),
            *('{"rows": 0}', '{"cols": true}', '{"rows": 1e9}', '{"tty": 1}', "[" * 5000),
            *('{"argv": ["\\ud800"]}', json.dumps({"argv": ["x" * 70_000]})),
        ],
    )
    def test_a_first_frame_that_makes_no_sense_is_refused(self, world, ask):
        with world.person() as person:
            person.write(ask)
            assert person.end() == ("message_invalid", 4400)

    @pytest.mark.parametrize(
        "frame",
        [b"", b"\x01spoofed", b"\x02", b"\x09", b"\x03" + b"x" * 5000, bytes(1024 * 1024 + 2)],
    )
    def test_a_person_writes_only_what_a_person_may(self, world, frame):
        with world.shell() as (person, _):
            person.write(frame)
            assert person.end() == ("frame_invalid", 4400)

    def test_it_is_reported_as_an_event_of_the_job_without_the_command(self, world):
        with world.person() as person:
            person.ask("sh", "-c", "login --password hidden")
            world.agent.expect(OpenStream)
        for _ in range(3):
            with world.person(forward=8888):
                world.agent.expect(OpenStream)
        events = Event.objects.filter(subject_id=str(world.attempt.job_id)).order_by("id")
        assert [event.kind for event in events] == ["job.exec", "job.forward"]
        assert {event.actor for event in events} == {world.owner.username}
        assert not any("hidden" in f"{event.message}{event.data}" for event in events)

    def test_the_audit_log_has_its_begin_and_end_without_the_command(self, world):
        with world.person() as person:
            person.ask("sh", "-c", "login --password hidden")
            world.agent.expect(OpenStream)
        with world.person(forward=8888):
            world.agent.expect(OpenStream)
        entries = AuditEntry.objects.filter(target_id=str(world.attempt.job_id))
        ends = {"job.exec", "job.exec.end", "job.port_forward", "job.port_forward.end"}
        wait_until(lambda: {e.action for e in entries.all()} == ends, "all is recorded")
        for entry in entries.all():
            assert (entry.actor_name, entry.address) == (world.owner.username, "127.0.0.1")
            assert entry.vc_id == world.attempt.job.vc_id
            assert ("duration_s" in entry.facts) == entry.action.endswith(".end")
            assert "hidden" not in str(vars(entry))

    def test_a_refused_attempt_is_in_the_audit_log(self, world):
        with world.person(make_user("intruder")) as person:
            person.ask()
            assert person.end() == ("not_found", 4404)
        entry = AuditEntry.objects.get(actor_name="intruder", outcome="refused")
        assert (entry.action, entry.facts["code"]) == ("job.exec", "not_found")


class TestIds:
    def test_25_another_node_cannot_take_a_stream(self, world):
        with world.person() as person:
            person.ask()
            order = world.agent.expect(OpenStream)
            with Node(world.port, order.stream_id, Joined().credential) as thief:
                assert thief.end() == ("", 4404)
            with world.node(order) as node:  # and has not spoilt it
                node.send(Channel.OUTPUT, b"x")
                assert person.receive() == (Channel.OUTPUT, b"x")

    def test_25_a_stream_is_dialled_once(self, world):
        with world.person() as person:
            person.ask()
            order = world.agent.expect(OpenStream)
            with world.node(order) as one, world.node(order) as two, ThreadPoolExecutor(2) as pool:
                ends = [pool.submit(node.end) for node in (one, two)]
                refused = next(as_completed(ends, 60))  # whichever the server looked at last
                assert refused.result() == ("", 4404)
                (two if refused is ends[0] else one).socket.close()
        with world.node(order) as later:
            assert later.end() == ("", 4404)

    def test_25_without_a_credential_nothing_is_dialled(self, world):
        for credential in ("", "skn_" + "a" * 64):
            with Node(world.port, "x" * 43, credential) as nobody:
                assert nobody.end() == ("", 4401)

    def test_ids_are_not_guessed(self, world):
        ids = {relay.new_id() for _ in range(1000)}
        assert len(ids) == 1000
        assert all(len(each) >= 43 for each in ids)  # 256 bits
        with Node(world.port, "guess", world.joined.credential) as node:
            assert node.end() == ("", 4404)


class TestLimits:
    def test_31_a_user_has_so_many_streams_and_no_more(self, world, monkeypatch):
        monkeypatch.setattr(relay, "MAX_PER_USER", 2)
        with ExitStack() as stack:
            pairs = [stack.enter_context(world.shell()) for _ in range(2)]
            with world.person() as third:
                third.ask()
                assert third.end() == ("too_many_streams", 4429)
            with world.person(make_user(admin=True)) as other:  # a limit of each
                other.ask()
                world.agent.expect(OpenStream)
            pairs[0][0].socket.close()
            pairs[0][1].end()
            with world.shell():
                pass

    def test_31_a_node_has_so_many_streams_and_no_more(self, world, monkeypatch):
        monkeypatch.setattr(relay, "MAX_PER_NODE", 1)
        with world.shell(), world.person(make_user(admin=True)) as second:
            second.ask()
            assert second.end() == ("too_many_streams", 4429)
