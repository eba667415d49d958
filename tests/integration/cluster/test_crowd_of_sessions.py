"""Sessions of many nodes at once: what takes few statements for one takes no more for many, and
none holds up or changes another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from django.db.models.functions import Now
from tests.support.platform_factories import join_node, make_gpus, make_hello, make_inventory
from tests.support.platform_factories import make_node as make

from skep_agent.protocol import Heartbeat, Hello
from skep_platform.cluster import services
from skep_platform.cluster.models import Node, NodeState
from skep_platform.core.models import Event


def make_nodes(number: int) -> list[Node]:
    return [make(gpus=1) for _ in range(number)]


def hello_of(node: Node, **fields: Any) -> Hello:
    """What the agent of `make_nodes` said when it connected."""
    inventory = make_inventory(make_gpus(node.name, 1))
    return make_hello(str(fields.pop("instance_id", node.instance_id)), inventory, **fields)


def beats_of(nodes: list[Node], **fields: Any) -> dict[UUID, tuple[int, Heartbeat]]:
    return {node.pk: (node.session_epoch, Heartbeat(seq=1, **fields)) for node in nodes}


@contextmanager
def locked(node: Node) -> Iterator[None]:
    """Another transaction holds the row of the node."""
    given = connection.settings_dict
    with psycopg.connect(
        host=given["HOST"],
        port=given["PORT"],
        user=given["USER"],
        password=given["PASSWORD"],
        dbname=given["NAME"],
    ) as other:
        other.execute("SELECT 1 FROM cluster_node WHERE id = %s FOR UPDATE", [node.pk])
        yield
        other.rollback()


@pytest.mark.django_db
class TestHeartbeats:
    @pytest.mark.parametrize("number", [1, 7])
    def test_they_renew_the_leases_of_any_number_of_nodes_in_one_query(
        self, number, django_assert_num_queries
    ):
        nodes = make_nodes(number)
        services.bump_revision([nodes[0].pk])
        Node.objects.update(lease_expires_at=Now(), last_heartbeat_at=Now())
        before = {node.pk: node for node in Node.objects.all()}
        with django_assert_num_queries(1):
            revisions = services.heartbeats(beats_of(nodes, disk_free_mb=5, log_bytes_waiting=7))
        assert revisions == {node.pk: int(node == nodes[0]) for node in nodes}
        for node in Node.objects.all():
            assert node.lease_expires_at - before[node.pk].lease_expires_at > timedelta(seconds=30)
            assert node.last_heartbeat_at >= before[node.pk].last_heartbeat_at
            assert (node.disk_free_mb, node.disk_total_mb, node.log_bytes_waiting) == (5, None, 7)

    def test_a_session_that_is_over_is_left_out(self):
        older, closed, lost, good = make_nodes(4)
        beats = beats_of([older, closed, lost, good])
        services.reopen_sessions({older.pk: hello_of(older)})
        services.close_session(closed.pk, closed.session_epoch)
        Node.objects.filter(pk=lost.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
        services.expire_leases()
        assert services.heartbeats(beats) == {good.pk: 0}


@pytest.mark.django_db(transaction=True)
def test_the_row_of_one_node_that_is_locked_holds_up_no_other():
    busy, free = make_nodes(2)
    with locked(busy):
        assert services.heartbeats(beats_of([busy, free])) == {free.pk: 0}
        hellos = {node.pk: hello_of(node) for node in (busy, free)}
        assert set(services.reopen_sessions(hellos)) == {free.pk}
    assert set(services.heartbeats(beats_of([busy]))) == {busy.pk}


@pytest.mark.django_db
class TestReopen:
    @pytest.mark.parametrize("number", [1, 7])
    def test_nodes_connect_again_in_as_many_statements_as_one(
        self, number, django_assert_num_queries
    ):
        nodes = make_nodes(number)
        for node in nodes:
            services.close_session(node.pk, node.session_epoch)
        hellos = {node.pk: hello_of(node, agent_version="newer") for node in nodes}
        with django_assert_num_queries(4):  # sessions, events, and a savepoint for this test
            opened = services.reopen_sessions(hellos)
        assert set(opened) == set(hellos)
        for before in nodes:
            found, node = opened[before.pk], Node.objects.get(pk=before.pk)
            assert found.session_epoch == node.session_epoch == before.session_epoch + 1
            assert (node.state, node.connected) == (NodeState.ONLINE, True)
            assert (node.agent_version, found.name) == ("newer", before.name)
            assert not found.first_session
            services.heartbeat(node.pk, found.session_epoch)
        events = Event.objects.filter(kind="node.online", data__was="UNREACHABLE")
        assert events.count() == number

    def test_one_that_was_not_missed_has_no_event(self, django_assert_num_queries):
        nodes = make_nodes(3)
        events = Event.objects.count()
        assert len(services.reopen_sessions({node.pk: hello_of(node) for node in nodes})) == 3
        assert Event.objects.count() == events

    def test_a_lease_that_was_extended_stays(self):
        [node] = make_nodes(1)
        services.plan_absence({node.pk: node.session_epoch}, 600)
        extended = Node.objects.get().lease_expires_at
        services.reopen_sessions({node.pk: hello_of(node)})
        assert Node.objects.get().lease_expires_at == extended

    def test_what_needs_a_look_at_more_than_the_row_is_left_out(self):
        joined, _ = join_node()
        changed, duplicate, removed, good = make_nodes(4)
        services.close_session(removed.pk, removed.session_epoch)
        services.remove_node(None, removed.name)
        hellos = {node.pk: hello_of(node) for node in (joined, removed, good)}
        hellos[changed.pk] = make_hello(changed.instance_id, make_inventory())
        hellos[duplicate.pk] = hello_of(duplicate, instance_id="another")
        before = {node.pk: node.session_epoch for node in Node.objects.all()}
        assert set(services.reopen_sessions(hellos)) == {good.pk}
        after = {node.pk: node.session_epoch for node in Node.objects.all()}
        assert [pk for pk in after if after[pk] != before[pk]] == [good.pk]

    def test_another_agent_may_follow_once_the_first_is_silent(self):
        [node] = make_nodes(1)
        Node.objects.update(last_heartbeat_at=Now() - timedelta(seconds=31))
        services.reopen_sessions({node.pk: hello_of(node, instance_id="another")})
        assert Node.objects.get().instance_id == "another"
