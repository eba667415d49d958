"""Nodes on which jobs fail by the node's fault: counted, shown, and taken out of use."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_diagnosis.verdict import Verdict
from skep_platform.cluster import faults, services
from skep_platform.cluster.models import Node, NodeFault
from skep_platform.core.bulk import fetch
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import diagnosing, failures
from skep_platform.jobs.lifecycle.diagnosing import COLUMNS, Diagnosis, Failed
from skep_platform.jobs.models import Job, TaskAttempt

pytestmark = pytest.mark.django_db
FALLEN = b"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"


@pytest.fixture
def vc(alice):
    return make_vc("vision", members=[alice])


@pytest.fixture
def node():
    make_node("other")
    return make_node("gpu-1", gpus=8)


def failure(job: Job, node: Node, log: bytes = b"", **facts) -> Diagnosis:
    attempt = place(job, [], node=node, state="FAILED")
    TaskAttempt.objects.filter(pk=attempt.pk).update(
        finished_at=timezone.now(), released_at=timezone.now(), **facts
    )
    failed = Failed(*TaskAttempt.objects.values_list(*COLUMNS).get(pk=attempt.pk))
    found = diagnosing.judge([failed], {failed.id: [log]})
    failures.store_diagnoses([found], timezone.now())
    return found


def fail_by_the_node(node, owner, vc, times, **facts) -> None:
    """At moments of their own."""
    for _ in range(times):
        grow_older()
        failure(make_job(vc, owner), node, **{"xids": [79], "exit_code": 1, **facts})


def grow_older() -> None:
    NodeFault.objects.update(at=F("at") - faults.EVENT)


def is_cordoned(node: Node) -> bool:
    return Node.objects.values_list("cordoned", flat=True).get(pk=node.pk)


def test_a_fault_of_the_node_is_stored_once(alice, vc, node):
    found = failure(make_job(vc, alice), node, exit_code=1, xids=[79])
    failures.store_diagnoses([found], timezone.now())
    fault = NodeFault.objects.get()
    assert (fault.node, fault.code, fault.evidence) == (node, 319, "xid = 79")
    assert TaskAttempt.objects.get().diagnosis["blame"] == "node"


def test_a_failure_of_the_job_blames_no_node(alice, vc, node):
    failure(make_job(vc, alice), node, exit_code=1, oom_killed=True)
    assert not NodeFault.objects.exists()
    assert TaskAttempt.objects.get().diagnosis["name"] == "UserContainerDockerOOMKilled"


def test_three_jobs_that_fail_by_the_node_take_it_out_of_use(alice, vc, node):
    fail_by_the_node(node, alice, vc, 2)
    assert faults.cordon_faulty() == []
    fail_by_the_node(node, alice, vc, 1, xids=[], error_code="gpu_unavailable")
    assert faults.cordon_faulty() == ["gpu-1"]
    assert faults.cordon_faulty() == []
    node.refresh_from_db()
    assert node.cordoned
    assert node.cordon_reason == (
        "3 tasks failed within 24 h by the node's fault "
        "(2 x GpuFailed, ContainerGpuDeviceNotFoundError)."
    )
    cordoned = Event.objects.get(kind="node.cordoned")
    assert node.cordon_reason in cordoned.message
    assert cordoned.data == {"faults": {"GpuFailed": 2, "ContainerGpuDeviceNotFoundError": 1}}


def test_one_job_that_fails_again_and_again_takes_no_node_out_of_use(alice, vc, node):
    job = make_job(vc, alice)
    for attempt in (1, 2, 3):
        Job.objects.filter(pk=job.pk).update(attempt=attempt)
        job.refresh_from_db()
        failure(job, node, exit_code=1, xids=[79])
    assert NodeFault.objects.count() == 3
    assert faults.cordon_faulty() == []


def test_jobs_that_fail_at_once_are_one_event(alice, vc, node):
    """A restart of the engine that was planned fails all that begins then."""
    for _ in range(4):
        failure(make_job(vc, alice), node, error_code="engine_down")
    assert NodeFault.objects.exclude(witness=None).count() == 4
    assert faults.cordon_faulty() == []
    fail_by_the_node(node, alice, vc, 1, xids=[], exit_code=None, error_code="engine_down")
    assert faults.cordon_faulty() == []
    fail_by_the_node(node, alice, vc, 1, xids=[], exit_code=None, error_code="engine_down")
    assert faults.cordon_faulty() == ["gpu-1"]


def test_old_faults_count_no_more(alice, vc, node):
    fail_by_the_node(node, alice, vc, 3)
    NodeFault.objects.update(at=timezone.now() - timedelta(hours=25))
    assert faults.cordon_faulty() == []


def test_what_one_tenants_logs_claim_takes_no_node_out_of_use(alice, vc, node):
    """Anybody can print the words of a broken GPU."""
    for _ in range(5):
        failure(make_job(vc, alice), node, FALLEN, exit_code=1)
    assert NodeFault.objects.filter(code=319).count() == 5
    assert faults.cordon_faulty() == []
    for name in ("speech", "text"):
        bob = make_user(name)
        grow_older()
        failure(make_job(make_vc(name, members=[bob]), bob), node, FALLEN, exit_code=1)
    assert faults.cordon_faulty() == ["gpu-1"]


@pytest.mark.parametrize("code", ["node_lost", "port_conflict"])
def test_a_lost_node_or_one_with_taken_ports_is_not_cordoned_for_it(alice, vc, node, code):
    fail_by_the_node(node, alice, vc, 4, xids=[], error_code=code)
    assert NodeFault.objects.filter(witness=None).count() == 4
    assert faults.cordon_faulty() == []


def test_the_last_node_in_use_stays(alice, vc, node):
    services.cordon(None, "other")
    fail_by_the_node(node, alice, vc, 3)
    assert faults.cordon_faulty() == []
    services.uncordon(None, "other")
    assert faults.cordon_faulty() == ["gpu-1"]


def test_nodes_that_are_not_due_are_not_locked(alice, vc, node):
    for _ in range(5):
        make_node()
    fail_by_the_node(node, alice, vc, 3)
    with CaptureQueriesContext(connection) as queries:
        assert faults.cordon_faulty() == ["gpu-1"]
    [locked] = [one["sql"] for one in queries if "FOR NO KEY UPDATE" in one["sql"]]
    assert len(fetch(locked)) == 2, "itself, and one that stays in use"


def test_the_setting_says_how_many_and_zero_is_never(alice, vc, node, settings):
    fail_by_the_node(node, alice, vc, 4)
    settings.SKEP_CORDON_FAULTS = 0
    assert faults.cordon_faulty() == []
    settings.SKEP_CORDON_FAULTS = 5
    assert faults.cordon_faulty() == []
    settings.SKEP_CORDON_FAULTS = 4
    assert faults.cordon_faulty() == ["gpu-1"]


def test_uncordoning_forgets_what_was_counted(alice, vc, node):
    fail_by_the_node(node, alice, vc, 3)
    faults.cordon_faulty()
    services.uncordon(None, "gpu-1")
    assert faults.cordon_faulty() == []
    node.refresh_from_db()
    assert (node.cordoned, node.cordon_reason) == (False, "")
    fail_by_the_node(node, alice, vc, 2)
    assert faults.cordon_faulty() == []
    fail_by_the_node(node, alice, vc, 1)
    assert faults.cordon_faulty() == ["gpu-1"]


def test_faults_are_shown_newest_first_and_jobs_only_to_who_may_see_them(alice, vc, node):
    mine, other = make_job(vc, alice, name="mine"), make_job(make_vc("speech"), make_user())
    failure(mine, node, exit_code=1, xids=[79])
    failure(other, node, FALLEN, exit_code=1)
    theirs, own = Api(alice).get("/nodes/gpu-1/faults").json()["results"]
    assert (own["job_name"], own["evidence"], own["virtual_cluster"]) == (
        "mine",
        "xid = 79",
        "vision",
    )
    assert (theirs["job_id"], theirs["job_name"], theirs["evidence"]) == (None, None, "")
    assert (theirs["virtual_cluster"], theirs["attempt_id"]) == (None, None)
    seen = Api(make_user(admin=True)).get("/nodes/gpu-1/faults").json()["results"][0]
    assert seen["job_id"] == str(other.pk)
    assert "fallen off the bus" in seen["evidence"]


def test_faults_of_a_node_that_is_not_there_are_not_found(alice):
    assert refusal(Api(alice).get("/nodes/nowhere/faults")) == (404, "not_found")


def test_faults_are_read_with_a_fixed_number_of_queries(
    alice, vc, node, django_assert_max_num_queries
):
    fail_by_the_node(node, alice, vc, 10)
    with django_assert_max_num_queries(8):
        assert len(Api(alice).get("/nodes/gpu-1/faults").json()["results"]) == 10


def test_nodes_show_how_many_failed_on_them_of_late(alice, vc, node):
    fail_by_the_node(node, alice, vc, 3)
    NodeFault.objects.filter(pk=NodeFault.objects.earliest("pk").pk).update(
        at=timezone.now() - timedelta(days=2)
    )
    shown = {n["name"]: n["faults_24h"] for n in Api(alice).get("/nodes").json()["results"]}
    assert shown == {"gpu-1": 2, "other": 0}


def test_an_unexplained_failure_is_remembered_with_its_task(alice, vc, node):
    found = failure(make_job(vc, alice), node, exit_code=1)
    assert isinstance(found.verdict, Verdict)
    assert TaskAttempt.objects.get().diagnosis["category"] == "No signature"
