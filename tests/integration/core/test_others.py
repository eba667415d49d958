"""What people learn of other teams: numbers where they need them, and no names."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone
from tests.support.cells_live import own, run
from tests.support.jobs_world import submit, tick
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc

from skep_platform.cluster.models import NodeFault
from skep_platform.cluster.queries import LIVE_KEY
from skep_platform.core.notifications import valkey
from skep_platform.jobs.models import Job, TaskAttempt

pytestmark = pytest.mark.django_db

SECRET = "hush"  # in every name that only others may know


@pytest.fixture
def theirs():
    """A virtual cluster that uses a whole node of ours, and waits for more; one of its tasks failed
    there."""
    spy = make_user(f"{SECRET}-user")
    vc = make_vc(f"{SECRET}-team", members=[spy])
    own(vc, 1)
    node = make_node("n1", gpus=8)
    job = run(vc, node, 8, name=f"{SECRET}-job", cell_type="")
    make_job(vc, spy, gpus=8, name=f"{SECRET}-wish")
    attempt = TaskAttempt.objects.filter(job__vc=vc).first()
    NodeFault.objects.create(
        node=node,
        attempt_id=attempt.pk,
        at=timezone.now(),
        code=1,
        name="fault",
        evidence=f"{SECRET} line",
        from_log=True,
    )
    return vc, node, job


@pytest.fixture
def ann():
    user = make_user("ann")
    vc = make_vc("ours", quotas={"A100": 8}, members=[user])
    return vc, user


PAGES = (
    *("/nodes", "/nodes/n1", "/nodes/n1/forecast", "/nodes/n1/faults", "/cells", "/cluster"),
    *("/cells/physical?depth=5", "/jobs", "/virtual-clusters", "/images", "/me"),
    *("/virtual-clusters/ours/queue", "/virtual-clusters/ours/cells"),
    *("/virtual-clusters/ours/history", "/nodes/n1/forecast?action=drain"),
)


@pytest.mark.parametrize("path", PAGES)
def test_finding_s18_no_page_names_people_jobs_or_virtual_clusters_of_others(theirs, ann, path):
    answer = Api(ann[1]).get(path)
    assert answer.status_code == 200, answer.content
    assert SECRET not in answer.content.decode()


def test_finding_s18_what_is_shown_instead(theirs, ann):
    api = Api(ann[1])
    gpus = api.get("/nodes/n1").json()["gpus"]
    assert [gpu["used_by"] for gpu in gpus] == [{"virtual_cluster": None}] * 8
    (there,) = api.get("/nodes/n1/forecast").json()["jobs"]
    assert (there["name"], there["owner"], there["virtual_cluster"]) == (None, None, None)
    assert there["gpus"] == 8
    (fault,) = api.get("/nodes/n1/faults").json()["results"]
    assert (fault["job_name"], fault["virtual_cluster"], fault["evidence"]) == (None, None, "")


def test_finding_s18_how_busy_a_gpu_is_is_shown_to_those_who_may_see_the_job(theirs, ann):
    vc, node, _ = theirs
    gpu = node.devices.first().uuid
    key, sample = LIVE_KEY.format(node.pk), json.dumps({"t": 1.0, "util": 77.0, "mem": 5})
    valkey().hset(key, gpu, sample)
    seen = {}
    for user in (ann[1], vc.memberships.get().user, make_user(admin=True)):
        rows = Api(user).get("/nodes/n1").json()["gpus"]
        (found,) = (row for row in rows if row["uuid"] == gpu)
        seen[user.username] = (found["utilization"], found["memory_used_mb"])
        index = node.devices.get(uuid=gpu).index
        use = Api(user).get("/cluster/use", nodes="n1").json()["use"]["n1"]
        assert use[index] == found["utilization"]
    assert seen.pop("ann") == (None, None)
    valkey().delete(key)
    assert seen.pop(f"{SECRET}-user") == (77.0, 5)
    assert list(seen.values()) == [(77.0, 5)]


def test_finding_s18_a_waiting_job_is_informed_of_others_without_names(ann):
    """The queue of one virtual cluster, in which jobs are private."""
    vc, user = ann
    make_node("n1", gpus=8)
    spy = make_user(f"{SECRET}-user")
    vc.memberships.create(user=spy)
    blocker = submit(spy, vc, name=f"{SECRET}-job", gpus=8, skep={"duration": "2h"})
    tick()
    waiting = submit(user, vc, name="mine", gpus=8)
    tick()
    stored = Job.objects.get(pk=waiting.pk).wait_reason
    assert SECRET not in json.dumps(stored)
    api = Api(user)
    shown = api.get(f"/jobs/{waiting.pk}").json()["wait_reason"]
    assert "another job (8 GPUs" in shown["message"]
    queue = api.get("/virtual-clusters/ours/queue").json()
    assert SECRET not in json.dumps([shown, queue, api.get("/jobs").json()])
    (running,) = queue["running"]
    assert (running["job"]["id"], running["job"]["name"], running["job"]["gpus"]) == (None, None, 8)
    checked = api.post("/jobs/check", {**Job.objects.get(pk=waiting.pk).spec, "name": "again"})
    assert SECRET not in checked.content.decode()
    boss = make_user("boss")
    vc.memberships.create(user=boss, role="admin")
    body = Api(boss).get(f"/jobs/{waiting.pk}").json()["wait_reason"]
    assert f"{SECRET}-job (ends in about 2 h)" in body["message"]
    assert body["details"]["used_by"][0]["gang"] == str(blocker.pk)


def test_finding_s18_events_of_a_job_name_no_other_job(ann):
    vc, user = ann
    make_node("n1", gpus=8)
    spy = make_user(f"{SECRET}-user")
    vc.memberships.create(user=spy)
    mine = submit(user, vc, name="mine", gpus=8, priority="test")
    tick()
    Job.objects.filter(pk=mine.pk).update(placed_at="2020-01-01T00:00:00Z")
    theirs = submit(spy, vc, name=f"{SECRET}-job", gpus=8, priority="prod")
    tick()
    api = Api(user)
    kinds = [e["kind"] for e in api.get(f"/jobs/{mine.pk}/events").json()["results"]]
    assert "job.preempted" in kinds
    for path in ("", "/events", "/attempts"):
        text = api.get(f"/jobs/{mine.pk}{path}").content.decode()
        assert SECRET not in text
        assert str(theirs.pk) not in text
