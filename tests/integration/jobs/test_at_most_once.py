"""A task attempt is started at most once, whatever its node forgets.

The agent is the real core of the agent against containers in memory, the server the real one on a
real database. Between any two steps the agent may die, lose its journal, its containers, or both,
and the connection may break with a message under way.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.agent_world import World
from tests.support.at_once import just_before
from tests.support.examples import examples
from tests.support.jobs_world import attempts_of, placed, state_of, submit, tick
from tests.support.platform_factories import (
    join_node,
    make_gpus,
    make_hello,
    make_inventory,
    make_node,
    make_user,
    make_vc,
)

from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.protocol import Hello, parse_server_message
from skep_platform.cluster.models import Node
from skep_platform.core.errors import Conflict
from skep_platform.gateway.agent import _open
from skep_platform.jobs import services
from skep_platform.jobs.containers.desired import SessionState, build_frame
from skep_platform.jobs.models import Job, TaskAttempt

pytestmark = pytest.mark.django_db


class Machine(World):
    """A node that counts how often it starts each attempt."""

    def __init__(self, gpus: Any) -> None:
        self.starts: Counter[str] = Counter()
        self.memory_id = str(uuid.uuid4())
        super().__init__(gpus, strict=False)

    def _start(self, operation: do.Start) -> None:
        container = self.containers.get(operation.container_id)
        if container is not None and container.status == "created":
            self.starts[container.attempt_id] += 1
        super()._start(operation)

    def forget(self, *, containers: bool) -> None:
        """Its state directory is lost, and with it what its engine held."""
        self.journal.clear()
        self.journal_lease = None
        self.memory_id = str(uuid.uuid4())
        if containers:
            self.containers.clear()
        self.restart()


class Cluster:
    """One node, its agent and the server between which messages get lost."""

    def __init__(self) -> None:
        self.node, _ = join_node()
        self.gpus = make_gpus(self.node.name, 4)
        self.machine = Machine(self.gpus)
        self.epoch: int | None = None  # of the session
        self.sent_revision: int | None = None
        self.connect()

    def connect(self) -> None:
        self.cut()
        hello: Hello = make_hello(
            self.node.instance_id,
            make_inventory(self.gpus),
            memory_id=self.machine.memory_id,
            held=self.machine.machine.known(),
        )
        node, _ = _open(self.node.pk, hello)
        self.epoch, self.sent_revision = node.session_epoch, None
        self.machine.welcome()

    def cut(self) -> None:
        if self.epoch is not None:
            self.machine.disconnect()
        self.epoch = None

    def send(self, *, arrives: bool = True) -> None:
        if self.epoch is None:
            return
        try:
            state = build_frame(self.node.pk, SessionState(self.epoch, self.sent_revision))
        except Conflict:
            self.cut()
            return
        if state is None:
            return
        self.sent_revision = state.revision
        if not arrives:
            self.cut()
            return
        desired: Any = parse_server_message(state.frame)
        self.machine.desire(*desired.attempts, revision=desired.revision)

    def report(self, *, acknowledged: bool = True) -> None:
        """Send what is new to the server, which stores it."""
        if self.epoch is None:
            return
        outbox = self.machine.machine.outbox
        outbox.take(10_000)
        facts = list(outbox.sent)
        if not facts:
            return
        services.apply_facts(self.node.pk, facts)
        if acknowledged:
            self.machine.send(ev.FactsAcked(facts[-1].seq))
        else:
            self.cut()

    def work(self) -> None:
        for operation in self.machine.pending[:1]:
            self.machine.complete(operation)

    def end_one(self) -> None:
        if running := self.machine.running():
            self.machine.exit(running[0].container_id, 0)

    def prune(self) -> None:
        """Remove a container that has ended."""
        ended = [c for c in self.machine.containers.values() if c.status == "exited"]
        for container in ended[:1]:
            self.machine.vanish(container.container_id)

    def do(self, step: str) -> None:
        match step:
            case "connect":
                self.connect()
            case "cut":
                self.cut()
            case "send":
                self.send()
            case "lose what is sent":
                self.send(arrives=False)
            case "report":
                self.report()
            case "lose the acknowledgement":
                self.report(acknowledged=False)
            case "work":
                self.work()
            case "work on":
                self.machine.complete_all()
                self.machine.drain_all()
            case "end one":
                self.end_one()
            case "prune":
                self.prune()
            case "die":
                self.cut()
                self.machine.restart()
            case "forget":
                self.cut()
                self.machine.forget(containers=False)
            case "forget all":
                self.cut()
                self.machine.forget(containers=True)
            case "reconcile":
                services.reconcile()
                tick()
        worst = self.machine.starts.most_common(1)
        assert not worst or worst[0][1] == 1, f"started twice after {step!r}"

    def settle(self) -> None:
        """The network and the agent are well again."""
        for _ in range(12):
            if self.epoch is None:
                self.do("connect")
            for step in ("send", "work on", "report", "end one", "work on", "report", "send"):
                self.do(step)
            self.machine.ack_facts()


STEPS = [
    *("connect", "send", "send", "work", "work on", "work on", "report", "report"),
    *("lose what is sent", "lose the acknowledgement", "cut", "end one", "prune"),
    *("die", "forget", "forget", "forget all", "forget all", "reconcile"),
]


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from(STEPS), min_size=4, max_size=24))
def test_finding_c2_no_history_starts_an_attempt_twice(steps: list[str]) -> None:
    with transaction.atomic():
        cluster = Cluster()
        alice = make_user()
        vc = make_vc(quotas={"A100": 4}, members=[alice])
        jobs = [placed(alice, vc), placed(alice, vc, instances=2)]
        for step in steps:
            cluster.do(step)
        cluster.settle()
        for attempt in TaskAttempt.objects.filter(job__in=jobs, state="LOST"):
            assert attempt.released_at is not None, f"{attempt.error_code} holds its GPUs for ever"
        transaction.set_rollback(True)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def job(cluster: Cluster) -> Job:
    alice = make_user()
    return placed(alice, make_vc(quotas={"A100": 4}, members=[alice]))


def run(cluster: Cluster) -> None:
    for step in ("send", "work on", "report"):
        cluster.do(step)


def test_finding_c2_a_running_attempt_that_its_node_forgot_is_retried_for_free(
    cluster: Cluster, job: Job
) -> None:
    run(cluster)
    assert state_of(job) == "RUNNING"
    make_node()  # where it goes on: the node that forgot is avoided
    cluster.do("forget all")
    cluster.do("connect")
    (attempt,) = attempts_of(job)
    assert (attempt.state, attempt.error_code) == ("LOST", "attempt_forgotten")
    assert attempt.leases.filter(released_at=None).exists(), "until the node has looked at them"
    run(cluster)
    attempt.refresh_from_db()
    assert attempt.released_at is not None
    job.refresh_from_db()
    assert (job.state, job.retries_used) == ("WAITING", 0)
    assert cluster.machine.starts[str(attempt.pk)] == 1


def test_finding_c2_what_was_sent_but_never_reported_counts_as_started(
    cluster: Cluster, job: Job
) -> None:
    cluster.do("send")
    cluster.do("work on")  # it starts, and its report is lost
    cluster.do("forget all")
    cluster.do("connect")
    assert attempts_of(job)[0].error_code == "attempt_forgotten"


def test_finding_c2_what_was_sent_and_did_not_arrive_is_sent_again_to_an_agent_that_remembers(
    cluster: Cluster, job: Job
) -> None:
    cluster.do("lose what is sent")
    cluster.do("connect")
    run(cluster)
    assert state_of(job) == "RUNNING"
    assert TaskAttempt.objects.filter(job=job).count() == 1


def test_finding_c2_containers_that_stayed_are_taken_over_without_a_journal(
    cluster: Cluster, job: Job
) -> None:
    run(cluster)
    cluster.do("forget")
    cluster.do("connect")
    run(cluster)
    (attempt,) = attempts_of(job)
    assert (attempt.state, state_of(job)) == ("RUNNING", "RUNNING")


def test_finding_c2_an_attempt_that_was_not_sent_yet_starts_after_a_wipe(
    cluster: Cluster, job: Job
) -> None:
    cluster.do("forget all")
    cluster.do("connect")
    run(cluster)
    assert state_of(job) == "RUNNING"


def test_finding_c2_an_agent_that_does_not_report_what_it_holds_loses_nothing(
    cluster: Cluster, job: Job
) -> None:
    """An agent of an earlier version, during an upgrade."""
    run(cluster)
    hello = make_hello(cluster.node.instance_id, make_inventory(cluster.gpus))
    _open(cluster.node.pk, hello)
    assert attempts_of(job)[0].state == "RUNNING"
    assert Node.objects.get(pk=cluster.node.pk).memory_id == cluster.machine.memory_id
    assert submit(job.owner, job.vc).state == "WAITING"


def test_a_hello_that_is_handled_late_loses_nothing_of_a_newer_session(
    cluster: Cluster, job: Job
) -> None:
    """The gateway stood still after it had opened the session of that Hello."""
    hello = make_hello(
        cluster.node.instance_id, make_inventory(cluster.gpus), held=[], memory_id="older"
    )

    def connect_again() -> None:
        cluster.do("connect")
        run(cluster)
        assert state_of(job) == "RUNNING"

    with just_before('."told_run_at"', connect_again):
        _open(cluster.node.pk, hello)
    (attempt,) = attempts_of(job)
    assert (attempt.state, state_of(job)) == ("RUNNING", "RUNNING")
    assert Node.objects.get(pk=cluster.node.pk).memory_id == cluster.machine.memory_id
