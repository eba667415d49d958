"""Submitting jobs: what is stored, what is refused, and what it costs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import event_kinds, job_file, submit
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user, make_vc
from tests.support.stack import eventually

from skep_platform.accounts import current_user
from skep_platform.audit.models import AuditEntry
from skep_platform.core import group_commit
from skep_platform.core.bulk import fetch
from skep_platform.core.errors import SkepError
from skep_platform.images import rules
from skep_platform.images.services import create as create_image
from skep_platform.jobs import services
from skep_platform.jobs.models import Job, Task
from skep_platform.jobs.submission import admission, allowances, storing, virtual_cluster
from skep_platform.jobs.submission.job_file import InvalidJobFile
from skep_platform.tenancy.limits import set_limit
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.tenancy.services import set_quotas

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _limits_read_anew(monkeypatch):
    monkeypatch.setattr(admission, "_remembered", (-admission.LIMITS_FRESH_S, None))


@pytest.fixture
def vc(alice):
    return make_vc("vision", quotas={"A100": 16, "V100": 4}, members=[alice])


def refusal(user, **changes) -> SkepError:
    before = Job.objects.count()
    with pytest.raises(SkepError) as raised:
        submit(user, changes.pop("vc"), **changes)
    assert Job.objects.count() == before
    return raised.value


def test_a_job_is_stored_with_its_roles_and_tasks(alice, vc):
    roles = {
        "ps": {"instances": 2, "gpus": 0, "cpu": 0.5, "ports": {"rpc": 2}},
        "worker": {"instances": 3, "gpus": 2, "completion": {"minFailedInstances": -1}},
    }
    job = submit(alice, vc, name="train", roles=roles, retries=3, priority="prod")
    job = Job.objects.get(pk=job.pk)
    assert (job.state, job.owner, job.vc, job.name) == ("WAITING", alice, vc, "train")
    assert (job.gpus, job.tasks_total, job.priority, job.priority_class) == (6, 5, 100, "prod")
    assert job.spec["jobRetryCount"] == 3
    assert json.loads(job.spec_text)["name"] == "train"
    ps, worker = job.roles.order_by("position")
    assert (ps.name, ps.cpu_millis, ps.ports, ps.min_failed, ps.min_succeeded) == (
        *("ps", 500, {"rpc": 2}),
        *(1, 2),
    )
    assert (worker.gpus, worker.image, worker.command, worker.min_failed) == (
        *(2, "test/image:1", "true"),
        -1,
    )
    ranks = list(Task.objects.filter(job=job).order_by("rank").values_list("role__name", "index"))
    assert ranks == [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("worker", 2)]
    assert event_kinds(job) == ["job.queued"]


def test_the_name_is_taken_for_ever_but_only_for_its_owner(alice, vc):
    submit(alice, vc, name="mine")
    error = refusal(alice, vc=vc, name="mine")
    assert (error.code, error.status) == ("job_name_taken", 409)
    bob = make_user("bob")
    vc.memberships.create(user=bob)
    submit(bob, vc, name="mine")


def test_the_same_token_answers_with_the_same_job(alice, vc):
    text = json.dumps(job_file(vc))
    first = services.submit(alice, text, client_token="t1")
    assert services.submit(alice, text, client_token="t1").pk == first.pk
    assert Job.objects.count() == 1


def test_a_token_used_for_another_job_file_is_refused(alice, vc):
    services.submit(alice, json.dumps(job_file(vc)), client_token="t1")
    with pytest.raises(SkepError) as raised:
        services.submit(alice, json.dumps(job_file(vc)), client_token="t1")
    assert raised.value.code == "client_token_reused"


def test_tokens_of_two_users_do_not_meet(alice, vc):
    bob = make_user("bob")
    vc.memberships.create(user=bob)
    jobs = {services.submit(u, json.dumps(job_file(vc)), client_token="t").pk for u in (alice, bob)}
    assert len(jobs) == 2


@pytest.mark.parametrize("token", ["x" * 65, "a\nb", "\0"])
def test_a_token_that_cannot_be_stored_is_refused(alice, vc, token):
    with pytest.raises(SkepError) as raised:
        services.submit(alice, json.dumps(job_file(vc)), client_token=token)
    assert raised.value.code == "client_token_invalid"


@pytest.mark.parametrize("name", ["vision", "nowhere", "default", "%", "' OR 1=1 --"])
def test_a_virtual_cluster_of_others_is_as_unknown_as_none(vc, name):
    error = refusal(make_user("mallory"), vc=name)
    assert (error.code, error.status) == ("unknown_virtual_cluster", 404)
    assert error.details == {"virtual_cluster": name}


def test_an_admin_may_submit_anywhere(vc):
    assert submit(make_user(admin=True), vc).vc == vc


def test_more_gpus_than_the_virtual_cluster_owns_of_one_model(alice, vc):
    error = refusal(alice, vc=vc, instances=17)
    assert error.code == "exceeds_quota"
    assert error.details == {
        "needs": 17,
        "owns": {"A100": 16, "V100": 4},
        "virtual_cluster": "vision",
    }
    assert submit(alice, vc, instances=16)


def test_an_opportunistic_job_needs_no_quota(alice):
    poor = make_vc("poor", members=[alice])
    assert refusal(alice, vc=poor).code == "exceeds_quota"
    assert submit(alice, poor, priority="oppo", instances=100)
    assert submit(alice, poor, gpus=0)


def test_more_per_task_than_any_node_has(alice):
    make_node("small", gpus=4, cpus=8, memory_mb=32768)
    make_node("mixed", gpus=2, model="V100", cpus=16, memory_mb=1024)
    vc = make_vc("big", quotas={"A100": 100}, members=[alice])
    error = refusal(alice, vc=vc, gpus=5)
    assert error.code == "exceeds_node"
    assert error.details == {
        "role": "worker",
        "resource": "gpu",
        "needs": 5,
        "largest_node": 4,
    }
    assert refusal(alice, vc=vc, gpus=5, priority="oppo").code == "exceeds_node"
    assert refusal(alice, vc=vc, cpu=16.5).details["resource"] == "cpu"
    assert refusal(alice, vc=vc, memory_mb=32769).details["resource"] == "memoryMB"
    apart = refusal(alice, vc=vc, gpus=4, instances=25, cpu=16, memory_mb=32768)
    assert (apart.code, apart.details["resource"]) == ("exceeds_node", "all")
    assert submit(alice, vc, gpus=4, instances=25, cpu=8, memory_mb=32768)


def test_finding_u3_more_than_the_cluster_has_is_reported_at_the_check(alice, vc):
    for name in ("n0", "n1"):
        make_node(name, gpus=8, cpus=96, memory_mb=1 << 20)
    error = refusal(alice, vc=vc, gpus=8, instances=13, priority="oppo")
    assert (error.code, error.details["fits"]) == ("exceeds_cluster", 2)
    error = refusal(alice, vc=vc, gpus=0, instances=200)
    assert (error.code, error.details) == (
        "exceeds_cluster",
        {"role": "worker", "needs": 200, "fits": 192},
    )
    assert "memory" in error.message
    roles = {name: {"gpus": 4, "instances": 3} for name in "ab"}
    assert refusal(alice, vc=vc, roles=roles, priority="oppo").details["cluster"] == 16
    assert submit(alice, vc, gpus=0, instances=200, incremental=True)
    assert submit(alice, vc, gpus=8, instances=2, priority="oppo")


def test_finding_j5_a_gpu_model_goes_by_the_name_of_nvml_and_by_that_of_its_cells(alice, vc):
    make_node("n", gpus=8, model="NVIDIA A100-SXM4-80GB")
    mine = make_vc("nlp", quotas={"NVIDIA A100-SXM4-80GB": 8}, members=[alice])
    for sku in ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"):
        made = job_file(mine, gpus=8)
        made["extras"]["hivedScheduler"]["taskRoles"] = {"worker": {"skuType": sku}}
        job = services.submit(alice, json.dumps(made))
        assert job.roles.get().gpu_model == "A100-SXM4-80GB"


def test_finding_j5_a_cell_type_is_no_gpu_model(alice, vc):
    """It passed the check and waited for ever."""
    make_node("n", gpus=8)
    made = job_file(vc, gpus=8)
    made["extras"]["hivedScheduler"]["taskRoles"] = {"worker": {"skuType": "A100-NODE8"}}
    with pytest.raises(SkepError) as raised:
        services.submit(alice, json.dumps(made))
    assert raised.value.code == "unknown_sku_type"


def test_finding_u4_a_model_has_one_name(alice):
    make_node("n", gpus=8, model="NVIDIA A100-SXM4-80GB")
    vc = make_vc("vision", members=[alice])
    set_quotas(alice, vc, {"NVIDIA A100-SXM4-80GB": 8})
    assert set(vc.quotas.values_list("gpu_model", flat=True)) == {"A100-SXM4-80GB"}
    error = refusal(alice, vc=vc, gpus=8, instances=2)
    assert error.details["owns"] == {"A100-SXM4-80GB": 8}
    assert error.message.count("A100") == 1


def test_a_larger_node_that_just_joined_is_seen_at_once(alice):
    vc = make_vc("big", quotas={"A100": 100}, members=[alice])
    make_node("small", gpus=4)
    assert refusal(alice, vc=vc, gpus=8).code == "exceeds_node"
    make_node("large", gpus=8)
    assert submit(alice, vc, gpus=8)


def test_a_refused_submit_reads_the_sizes_of_all_nodes_only_when_a_node_has_changed(alice):
    vc = make_vc("big", quotas={"A100": 100}, members=[alice])
    make_node("small", gpus=4)
    refusal(alice, vc=vc, gpus=8)
    with CaptureQueriesContext(connection) as queries:
        assert refusal(alice, vc=vc, gpus=8).code == "exceeds_node"
    assert not [q for q in queries if "cluster_device" in q["sql"]]


def test_a_cluster_without_nodes_refuses_no_size(alice, vc):
    assert submit(alice, vc, gpus=16, cpu=4000)


def test_an_image_name_becomes_its_reference_if_the_virtual_cluster_may_use_it(alice, vc):
    admin = make_user(admin=True)
    create_image(admin, "torch", "registry.example/torch:2", virtual_clusters=["vision"])
    make_vc("other")
    create_image(admin, "secret", "registry.example/secret:1", virtual_clusters=["other"])
    for uri, reference in (
        ("torch", "registry.example/torch:2"),
        ("secret", "secret"),
        ("torch:latest", "torch:latest"),
    ):
        spec = job_file(vc)
        spec["prerequisites"][0]["uri"] = uri
        job = services.submit(alice, json.dumps(spec))
        assert job.roles.get().image == reference


def test_an_invalid_file_is_refused_with_all_its_problems(alice, vc):
    with pytest.raises(InvalidJobFile) as raised:
        submit(alice, vc, instances=-1, unknown=1)
    assert len(raised.value.details["errors"]) == 2


def test_submitting_2000_tasks_takes_as_many_queries_as_one(alice, vc, monkeypatch):
    monkeypatch.setattr(allowances, "FRESH_S", 3600.0)
    make_node("n", gpus=8, cpus=2000, memory_mb=2_048_000)
    submit(alice, vc, gpus=0)  # what is remembered is read now

    def queries(instances: int) -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            submit(alice, vc, gpus=0, instances=instances)
        return len(captured)

    assert queries(2000) == queries(1) <= 5
    assert Job.objects.get(tasks_total=2000).tasks.count() == 2000


def test_check_reports_everything_and_changes_nothing(alice, vc):
    submit(alice, vc, name="taken")
    text = json.dumps(job_file(vc, name="taken", instances=100), indent=1)
    result = services.check(alice, text)
    assert not result.valid
    assert [(p.code, p.path) for p in result.errors] == [
        ("job_name_taken", "name"),
        ("exceeds_quota", "defaults.virtualCluster"),
    ]
    assert all(p.line > 1 for p in result.errors)
    assert result.summary == {
        "name": "taken",
        "virtual_cluster": "vision",
        "gpus": 100,
        "tasks": 100,
    }
    assert Job.objects.count() == 1


def test_check_of_a_broken_file_has_problems_and_no_summary(alice):
    result = services.check(alice, "a: [")
    assert (result.valid, result.summary, result.forecast) == (False, None, None)


def test_check_forecasts_a_start_or_the_reason_to_wait(alice, vc):
    text = json.dumps(job_file(vc, instances=4))
    assert services.check(alice, text).forecast["code"] == "vc_owns_nothing"
    make_node("gpu-1", gpus=8)
    forecast = services.check(alice, text).forecast
    assert (forecast["code"], forecast["details"]["nodes"]) == ("starts_now", ["gpu-1"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("token", ["", "same"])
def test_one_of_many_simultaneous_submits_wins(token):
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 16}, members=[alice])
    text = json.dumps(job_file(vc))

    def attempt(_: int) -> str:
        try:
            return str(services.submit(alice, text, client_token=token).pk)
        except SkepError as error:
            return error.code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(attempt, range(8)))
    (job,) = Job.objects.all()
    assert answers == {str(job.pk)} | (set() if token else {"job_name_taken"})
    assert job.tasks.count() == 1


@pytest.mark.django_db(transaction=True)
def test_what_comes_while_a_submit_is_stored_is_stored_at_once(monkeypatch):
    monkeypatch.setattr(group_commit, "PATIENCE_S", 60.0)
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 16}, members=[alice])
    submit(alice, vc, name="taken")
    waiting = storing._group_commit(vc.pk)._waiting

    def attempt(name: str) -> str:
        try:
            return submit(alice, vc, name=name, instances=2).name
        except SkepError as error:
            return error.code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        with transaction.atomic():
            VirtualCluster.objects.select_for_update().get(pk=vc.pk)
            first = pool.submit(attempt, "first")
            eventually(lambda: bool(fetch(BLOCKED)), 30)
            others = [pool.submit(attempt, name) for name in ("second", "third")]
            eventually(lambda: len(waiting) == 2, 30)
        assert [one.result(30) for one in (first, *others)] == ["first", "second", "third"]
        jobs = {job.name: job for job in Job.objects.all()}
        assert jobs["second"].created_at == jobs["third"].created_at > jobs["first"].created_at
        for name in ("second", "third"):
            assert list(jobs[name].tasks.order_by("rank").values_list("rank", flat=True)) == [0, 1]
            assert event_kinds(jobs[name]) == ["job.queued"]
        with transaction.atomic():
            VirtualCluster.objects.select_for_update().get(pk=vc.pk)
            fourth = pool.submit(attempt, "fourth")
            eventually(lambda: bool(fetch(BLOCKED)), 30)
            others = [pool.submit(attempt, name) for name in ("taken", "fifth")]
            eventually(lambda: len(waiting) == 2, 30)
        found = [one.result(30) for one in (fourth, *others)]
        assert found == ["fourth", "job_name_taken", "fifth"]


BLOCKED = "SELECT pid FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"


@pytest.mark.django_db(transaction=True)
def test_the_next_submit_of_a_user_takes_two_statements_and_no_transaction(monkeypatch):
    """That of earlier jobs, and the one that stores the job with all that belongs to it; those of
    the token and of the virtual cluster are made once a second."""
    monkeypatch.setattr(allowances, "FRESH_S", 3600.0)
    monkeypatch.setattr(current_user, "FRESH_S", 3600.0)
    monkeypatch.setattr(virtual_cluster._remembered, "_fresh_s", 3600.0)
    alice = make_user("alice")
    vc, api = make_vc("vision", quotas={"A100": 16}, members=[alice]), Api(alice)
    assert api.post("/jobs", job_file(vc, name="first")).status_code == 201
    with CaptureQueriesContext(connection) as captured:
        assert api.post("/jobs", job_file(vc, name="second")).status_code == 201
    assert len(captured) <= 2, [q["sql"][:80] for q in captured]
    job = Job.objects.get(name="second")
    assert event_kinds(job) == ["job.queued"]
    assert AuditEntry.objects.get(target_id=job.pk).action == "job.submit"


@pytest.mark.django_db(transaction=True)
def test_what_this_process_changes_of_a_virtual_cluster_holds_for_the_next_submit(monkeypatch):
    monkeypatch.setattr(virtual_cluster._remembered, "_fresh_s", 3600.0)
    alice, bob = make_user("alice"), make_user("bob")
    vc = make_vc("vision", quotas={"A100": 16}, members=[alice, bob])
    numbers = count()

    def answer(**changes) -> str:
        try:
            submit(alice, vc, name=f"job-{next(numbers)}", **changes)
        except SkepError as error:
            return error.code
        return "accepted"

    assert answer() == "accepted"
    set_quotas(alice, vc, {"A100": 0})
    assert answer(gpus=1) == "exceeds_quota"
    set_quotas(alice, vc, {"A100": 16})
    assert answer(gpus=1) == "accepted"
    set_limit(None, vc, "gpus_per_job", 1)
    assert answer(gpus=2) == "too_many_gpus_in_job"
    rules.replace(vc, ["registry.example.org/*"])
    assert answer() == "image_not_allowed"
    rules.replace(vc, [])
    vc.memberships.filter(user=alice).update(role="viewer")
    assert answer() == "role_too_small"
    vc.memberships.filter(user=alice).delete()
    assert answer() == "unknown_virtual_cluster"
    # A statement of another process: it holds once what was read is a second old.
    fetch("UPDATE tenancy_membership SET role = 'viewer' WHERE user_id = %s RETURNING 1", [bob.pk])
    monkeypatch.setattr(virtual_cluster._remembered, "_fresh_s", 0.0)
    with pytest.raises(SkepError) as refused:
        submit(bob, vc, name="late")
    assert refused.value.code == "role_too_small"


PLUGIN = "com.microsoft.pai.runtimeplugin"
TEAM_STORAGE = {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["nfs"]}}


OTHER_STORAGE = {"plugin": "azure_storage"}


@pytest.mark.parametrize(
    ("extras", "code"),
    [
        ({PLUGIN: [OTHER_STORAGE]}, "storage_not_mounted"),
        ({PLUGIN: [TEAM_STORAGE]}, "storage_not_found"),
        ({"storages": [{"name": "nfs"}]}, "storage_not_found"),
    ],
)
@pytest.mark.parametrize("accepted_by", ["the file", "a parameter"])
def test_finding_u9_rest_refuses_a_storage_that_is_not_mounted_unless_asked_to_ignore_it(
    alice, vc, extras, code, accepted_by
):
    file = job_file(vc, name="stored")
    file["extras"] = file.get("extras", {}) | extras
    api = Api(alice)
    found = api.post("/jobs/check", file).json()
    assert code in [each["code"] for each in found["notes"] + found["errors"]]
    refused = api.post("/jobs", file)
    status = 404 if code == "storage_not_found" else 400
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert not Job.objects.exists()
    path = "/jobs"
    if accepted_by == "the file":
        file["extras"]["skep"] = file["extras"].get("skep", {}) | {"ignoreStorages": True}
    else:
        path += "?ignore_storage=true"
    answer = api.post(path, file)
    assert answer.status_code == 201, answer.content
    job = Job.objects.get()
    assert event_kinds(job) == ["job.queued", "job.storage_not_mounted"]
    assert api.post(f"/jobs/{job.pk}/clone", {}).status_code == 201, "it was accepted already"
