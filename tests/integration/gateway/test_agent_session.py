"""What a connected agent is sent, and what becomes of what it reports."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError
from django.db.models import F
from django.utils import timezone
from tests.support.gateway_agent import Agent, Joined
from tests.support.gateway_rows import frame, running_attempt
from tests.support.gateway_server import ProcessServer, wait_until
from tests.support.platform_factories import make_gpus, make_inventory, release

from skep_agent.protocol import (
    AttemptFact,
    CachedImage,
    ContainerSample,
    Desired,
    HeartbeatAck,
    InventoryChanged,
    LogAck,
    NetworkPolicy,
    NodeImages,
    Prefetches,
    PrefetchReport,
    Refused,
    ReportAck,
)
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Device, Node
from skep_platform.core import notifications
from skep_platform.gateway import concurrency
from skep_platform.images.models import NodeImage, NodePrefetch, Prefetch
from skep_platform.jobs import services as jobs
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import AttemptState
from skep_platform.telemetry.models import GpuRollup, TaskRollup


def fact(attempt: TaskAttempt, phase: str, seq: int = 1, **fields: Any) -> AttemptFact:
    known = {"seq": seq, "attempt_id": str(attempt.pk), "epoch": attempt.epoch, "at": time.time()}
    return AttemptFact(phase=phase, **known | fields)  # type: ignore[arg-type]


def state(attempt: TaskAttempt) -> str:
    attempt.refresh_from_db()
    return attempt.state


class TestNetworkPolicy:
    def test_finding_s12_what_tasks_may_reach_is_reported_before_what_shall_run(self, port):
        joined = Joined()
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            assert [type(message) for message in agent.other] == [NetworkPolicy]


class TestDesired:
    def test_what_the_node_shall_run_comes_with_the_first_frame(self, port):
        joined = Joined(gpus=1)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        with joined.connect(port) as agent:
            _, desired = agent.enter(joined.hello)
            assert [a.attempt_id for a in desired.attempts] == [str(attempt.pk)]
            assert desired.attempts[0].gpu_uuids == attempt.gpu_uuids

    def test_a_notification_brings_the_new_state(self, port):
        joined = Joined(gpus=1)
        with joined.connect(port) as agent:
            _, before = agent.enter(joined.hello)
            attempt = running_attempt(joined.node)
            cluster.bump_revision([joined.node.pk])
            after = agent.expect(Desired)
            assert after.revision == before.revision + 1
            assert [a.attempt_id for a in after.attempts] == [str(attempt.pk)]

    def test_a_lost_notification_is_made_good_by_the_next_heartbeat(self, port):
        joined = Joined()
        with joined.connect(port) as agent:
            _, before = agent.enter(joined.hello)
            Node.objects.update(desired_revision=F("desired_revision") + 1)
            agent.beat()
            assert agent.expect(Desired).revision == before.revision + 1

    def test_a_burst_of_notifications_ends_with_the_newest_and_sends_nothing_twice(self, port):
        joined = Joined()
        with joined.connect(port) as agent:
            _, first = agent.enter(joined.hello)
            for _ in range(30):
                cluster.bump_revision([joined.node.pk])
            sent = [first.revision]
            while sent[-1] < first.revision + 30:
                sent.append(agent.expect(Desired).revision)
            assert sent == sorted(set(sent))
            notifications.publish(
                {notifications.node_group(joined.node.pk): {"type": "node.changed"}}
            )
            agent.beat()
            assert not any(isinstance(message, Desired) for message in agent.other)


class TestHeartbeat:
    def test_it_costs_one_query(self, port, queries):
        joined = Joined()
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            agent.beat()
            queries.sql.clear()
            assert agent.beat().seq == 2
            assert len(queries.sql) == 1

    def test_it_renews_the_lease(self, port):
        joined = Joined()
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            before = Node.objects.get().lease_expires_at
            agent.beat()
            assert Node.objects.get().lease_expires_at > before

    def test_a_database_that_is_away_for_one_heartbeat_ends_nothing(self, port, monkeypatch):
        joined = Joined()
        away = [OperationalError("away")]
        heartbeats = cluster.heartbeats

        def flaky(*args: Any) -> dict[UUID, int]:
            if away:
                raise away.pop()
            return heartbeats(*args)

        monkeypatch.setattr(cluster, "heartbeats", flaky)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            agent.send('{"type": "heartbeat", "seq": 1}')
            wait_until(lambda: not away, "the first heartbeat failed")
            agent.send('{"type": "heartbeat", "seq": 2}')
            assert agent.expect(HeartbeatAck).seq == 2


class TestFacts:
    def test_a_report_moves_the_attempt_and_is_acknowledged(self, port):
        joined = Joined(gpus=1)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            attempt = running_attempt(joined.node)
            agent.report(
                fact(attempt, "running", 4, container_id="c1"),
                fact(attempt, "exited", 5, exit_code=0),
            )
            assert agent.expect(ReportAck).seq == 5
            assert state(attempt) == AttemptState.SUCCEEDED

    def test_a_repeated_report_changes_nothing_and_is_acknowledged(self, port):
        joined = Joined(gpus=1)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            attempt = running_attempt(joined.node)
            for _ in range(2):
                agent.report(fact(attempt, "exited", 3, exit_code=1))
                assert agent.expect(ReportAck).seq == 3
            assert state(attempt) == AttemptState.FAILED

    def test_25_a_node_cannot_report_for_an_attempt_on_another_node(self, port):
        mine, other = Joined(), Joined(gpus=1)
        with mine.connect(port) as rogue, other.connect(port) as honest:
            rogue.enter(mine.hello)
            honest.enter(other.hello)
            attempt = running_attempt(other.node)
            rogue.report(fact(attempt, "exited", exit_code=0), fact(attempt, "released", 2))
            assert rogue.expect(ReportAck).seq == 2
            assert state(attempt) == AttemptState.RUNNING
            assert attempt.released_at is None

    def test_25_a_replayed_report_of_an_older_epoch_is_ignored(self, port):
        joined = Joined(gpus=1)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            attempt = running_attempt(joined.node)
            agent.report(fact(attempt, "exited", exit_code=0, epoch=attempt.epoch + 1))
            agent.expect(ReportAck)
            assert state(attempt) == AttemptState.RUNNING

    @pytest.mark.parametrize(
        "wrong",
        [
            {"attempt_id": "nonsense"},
            {"epoch": 10**30},
            {"epoch": -1},
            {"at": 1e300},
            {"at": -1.0},
            {"exit_code": 10**12},
            {"signal": -9},
            {"memory_peak_mb": 10**15},
            {"message": "a\x00b" * 5000},
            {"error_code": "x" * 500},
            {"container_id": "\x00" * 200},
        ],
        ids=lambda wrong: str(wrong)[:60],
    )
    def test_26_a_fact_with_impossible_values_holds_up_no_other(self, port, wrong):
        joined = Joined(gpus=1)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            attempt = running_attempt(joined.node)
            agent.report(fact(attempt, "running", 1, **wrong))
            agent.report(fact(attempt, "exited", 2, **{"exit_code": 0} | wrong))
            agent.report(fact(attempt, "exited", 3, exit_code=0))
            while agent.expect(ReportAck).seq < 3:
                pass
            assert state(attempt) in (AttemptState.SUCCEEDED, AttemptState.FAILED)

    def test_the_number_of_queries_does_not_grow_with_the_facts(self, port, queries):
        joined = Joined(gpus=24)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            counts = []
            for number in (2, 20):
                attempts = [running_attempt(joined.node) for _ in range(number)]
                queries.sql.clear()
                agent.report(*(fact(a, "pulling", i) for i, a in enumerate(attempts)))
                agent.expect(ReportAck)
                counts.append(len(queries.sql))
                for attempt in attempts:
                    release(attempt)
            assert counts[0] == counts[1]

    def test_a_database_that_is_away_delays_a_report_and_loses_nothing(self, port, monkeypatch):
        monkeypatch.setattr(concurrency, "PAUSE_S", 0.01)
        joined = Joined(gpus=1)
        away = iter([OperationalError("away"), OperationalError("still")])
        apply_facts = jobs.apply_facts_of_nodes

        def flaky(*args: Any) -> None:
            for error in away:
                raise error
            apply_facts(*args)

        monkeypatch.setattr(jobs, "apply_facts_of_nodes", flaky)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            attempt = running_attempt(joined.node)
            agent.report(fact(attempt, "exited", 7, exit_code=0))
            assert agent.expect(ReportAck).seq == 7
            assert state(attempt) == AttemptState.SUCCEEDED


class TestInventory:
    def test_a_change_is_stored(self, port):
        joined = Joined(gpus=2)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            sick = joined.hello.inventory.gpus[0].model_copy(
                update={"healthy": False, "problem": "XID 79"}
            )
            agent.send(InventoryChanged(inventory=make_inventory([sick])))
            wait_until(lambda: Device.objects.get(uuid=sick.uuid).health == "BAD", "GPU is bad")

    def test_26_one_that_cannot_be_is_refused_and_the_session_goes_on(self, port):
        joined = Joined()
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            agent.send(InventoryChanged(inventory=make_inventory(make_gpus("x", 1) * 2)))
            assert agent.expect(Refused).code == "inventory_invalid"
            assert agent.beat()


class TestSamples:
    def sample(self, agent: Agent, joined: Joined, attempt: TaskAttempt, **mad: Any) -> None:
        [gpu] = joined.hello.inventory.gpus
        values = {"utilization": 50.0, "memory_used_mb": 1000} | mad
        task = ContainerSample(attempt_id=str(attempt.pk), cpu_percent=150.0, memory_mb=300)
        gpus = [{"uuid": gpu.uuid} | values]  # plain JSON: a model would turn NaN into null
        message = {"type": "samples", "at": 0.0, "gpus": gpus, "containers": [task.model_dump()]}
        agent.send(json.dumps(message))

    def sent(self, kind: str, node: Node, name: str) -> dict[str, float]:
        """The live value published last; empty before the first."""
        value = notifications.valkey().hget(f"skep:{kind}:live:{node.pk}", name)
        return json.loads(value) if value else {}

    def test_newest_values_are_live_and_sums_are_stored_when_the_agent_leaves(self, port):
        joined = Joined(gpus=1)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            attempt = running_attempt(joined.node)
            cluster.bump_revision([joined.node.pk])
            agent.expect(Desired)
            self.sample(agent, joined, attempt)
            self.sample(agent, joined, attempt, utilization=100.0, memory_used_mb=2000)
            [uuid] = attempt.gpu_uuids
            # The values of the first sample alone may be published before.
            wait_until(
                lambda: self.sent("gpu", joined.node, uuid).get("util") == 100.0, "newest published"
            )
            assert self.sent("gpu", joined.node, uuid)["mem"] == 2000
            task = self.sent("task", joined.node, str(attempt.pk))
            assert (task["cpu"], task["mem"]) == (150.0, 300)
            for kind in ("gpu", "task"):
                assert 0 < notifications.valkey().ttl(f"skep:{kind}:live:{joined.node.pk}") <= 60
        # Those of the task are stored last; there is a row for each minute.
        stored = TaskRollup.objects.filter(attempt=attempt)
        wait_until(lambda: sum(row.samples for row in stored.all()) == 2, "rollups stored")
        rows = list(GpuRollup.objects.filter(attempt=attempt, device_id=uuid))
        assert sum(row.samples for row in rows) == 2
        assert sum(row.utilization_sum for row in rows) == 150.0
        assert max(row.memory_used_mb_max for row in rows) == 2000

    def test_25_samples_for_what_is_not_on_the_node_are_not_stored(self, port):
        mine, other = Joined(gpus=1), Joined(gpus=1)
        with mine.connect(port) as rogue, other.connect(port) as honest:
            rogue.enter(mine.hello)
            honest.enter(other.hello)
            attempt = running_attempt(other.node)
            cluster.bump_revision([other.node.pk])
            honest.expect(Desired)
            self.sample(rogue, other, attempt)
            self.sample(rogue, mine, attempt)
            rogue.beat()
        wait_until(GpuRollup.objects.exists, "rollups stored")
        assert GpuRollup.objects.get().device.node == mine.node
        assert not TaskRollup.objects.exists()

    @pytest.mark.parametrize(
        ("mad", "expected"),
        [
            ({"utilization": float("nan")}, (0.0, 1000)),
            ({"utilization": float("inf")}, (0.0, 1000)),
            ({"utilization": 1e9}, (100.0, 1000)),
            ({"memory_used_mb": 10**30}, (50.0, 2**31 - 1)),
            ({"memory_used_mb": -5}, (50.0, 0)),
        ],
    )
    def test_26_impossible_values_are_bounded(self, port, mad, expected):
        joined = Joined(gpus=1)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            attempt = running_attempt(joined.node)
            self.sample(agent, joined, attempt, **mad)
            agent.beat()
        wait_until(GpuRollup.objects.exists, "rollups stored")
        row = GpuRollup.objects.get()
        assert (row.utilization_sum, row.memory_used_mb_max) == expected


def test_without_a_broker_the_heartbeat_brings_news_and_nothing_is_lost(transactional_db):
    joined = Joined(gpus=1)
    with (
        ProcessServer(SKEP_REDIS_URL="redis://127.0.0.1:1") as server,
        joined.connect(server.port) as agent,
    ):
        agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        cluster.bump_revision([joined.node.pk])
        agent.beat()
        assert [a.attempt_id for a in agent.expect(Desired).attempts] == [str(attempt.pk)]
        agent.send(frame(attempt, 0, b"hello"))
        assert agent.expect(LogAck).offset == 5
        agent.report(fact(attempt, "exited", exit_code=0))
        assert agent.expect(ReportAck)
        assert state(attempt) == AttemptState.SUCCEEDED


class TestPrefetches:
    def test_a_node_is_sent_what_it_shall_pull_and_its_reports_are_stored(self, port):
        joined = Joined()
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            made = prefetch(joined.node)
            while not (asked := agent.expect(Prefetches)).images:
                pass  # it was looked for just before
            assert [one.image.reference for one in asked.images] == ["torch:2.9"]
            agent.send(PrefetchReport(prefetch_id=str(made.pk), state="pulling", percent=40))
            agent.send(PrefetchReport(prefetch_id=str(made.pk), state="done", percent=100))
            agent.send(NodeImages(images=[CachedImage(reference="torch:2.9", size=7)]))
            wait_until(lambda: NodePrefetch.objects.get(prefetch=made).state == "DONE", "done")
            wait_until(
                lambda: NodeImage.objects.filter(node=joined.node, size=7).exists(), "images"
            )
            assert agent.expect(Prefetches).images == []  # nothing is left to do

    def test_one_that_was_cancelled_while_the_agent_was_away_is_taken_from_it(self, port):
        joined = Joined()
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            assert agent.expect(Prefetches).images == []

    def test_one_that_is_cancelled_is_taken_from_the_list(self, port):
        joined = Joined()
        made = prefetch(joined.node)
        with joined.connect(port) as agent:
            agent.enter(joined.hello)
            assert len(agent.expect(Prefetches).images) == 1
            NodePrefetch.objects.filter(prefetch=made).update(state="CANCELLED")
            assert agent.expect(Prefetches).images == []


def prefetch(node: Node) -> Prefetch:
    expires_at = timezone.now() + timedelta(hours=1)
    made = Prefetch.objects.create(image="torch", reference="torch:2.9", expires_at=expires_at)
    NodePrefetch.objects.create(prefetch=made, node=node)
    return made
