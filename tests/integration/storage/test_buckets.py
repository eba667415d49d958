"""Storages in buckets: what admins may describe, who learns of keys, and what nodes are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.integration.storage.test_job_storages import file_with, submitted
from tests.support.jobs_world import attempts_of, tick
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import (
    make_gpus,
    make_hello,
    make_inventory,
    make_user,
    make_vc,
)

from skep_agent.protocol import S3_MOUNTS, S3Mount
from skep_platform.audit.models import AuditEntry
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node
from skep_platform.core.models import Event
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import desired_attempts, desired_state
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.storage.models import Storage

pytestmark = pytest.mark.django_db
ACCESS, SECRET = "AKIAEXAMPLEKEY", "never-to-be-seen-again"
DATA = {"endpoint": "https://s3.example.org", "bucket": "sets", "prefix": "team/cats"}


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


@pytest.fixture
def root(admin: Api) -> Api:
    return admin


def made(root: Api, *vcs: Any, name: str = "cats", keys: bool = True, **fields: Any):
    body = {"name": name, "type": "s3", "data": DATA} | fields
    if keys:
        body |= {"access_key": ACCESS, "secret_key": SECRET}
    answer = root.post("/storages", body)
    for vc in vcs:
        assert root.put(f"/storages/{name}/grants/{vc.name}", {}).status_code == 200
    return answer


def copies_of(job: Job) -> list[S3Mount]:
    """What the node of the job's one task is sent."""
    assert str(job.pk) in tick()
    (attempt,) = attempts_of(job)
    (spec,) = [s for s in desired_attempts(attempt.node_id) if s.attempt_id == str(attempt.pk)]
    assert spec.mounts == []
    return spec.s3


def test_27_keys_are_stored_sealed_and_never_shown_again(root):
    answers = [
        made(root),
        root.get("/storages/cats"),
        root.get("/storages"),
        root.patch("/storages/cats", {"description": "x"}),
        root.patch("/storages/cats", {"access_key": ACCESS, "secret_key": SECRET}),
    ]
    assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 200]
    assert answers[1].json()["has_keys"] is True
    assert answers[1].json()["data"] == DATA
    row = Storage.objects.get()
    kept = [answer.content.decode() for answer in answers]
    kept += [repr(Storage.objects.values().get()), bytes(row.sealed or b"").decode()]
    kept += [repr(one) for one in AuditEntry.objects.values()]
    kept += [repr(one) for one in Event.objects.values()]
    for hidden in (ACCESS, SECRET):
        assert not [text for text in kept if hidden in text]
    (changed,) = AuditEntry.objects.filter(action="storage.update", after__has_key="keys")
    assert changed.after.keys() == {"keys"}


def test_keys_can_be_forgotten_and_a_bucket_may_have_none(root):
    made(root)
    kept = root.patch("/storages/cats", {"description": "x"}).json()
    assert kept["has_keys"] is True
    forgotten = root.patch("/storages/cats", {"access_key": "", "secret_key": ""}).json()
    assert forgotten["has_keys"] is False
    assert made(root, name="public", keys=False).json()["has_keys"] is False


@pytest.mark.parametrize("change", [{"endpoint": "https://evil.example.org"}, {"bucket": "mine"}])
def test_keys_do_not_follow_to_another_place(root, change):
    made(root)
    answer = root.patch("/storages/cats", {"data": DATA | change})
    assert refusal(answer) == (400, "storage_keys_needed")
    keys = {"access_key": ACCESS, "secret_key": SECRET}
    assert root.patch("/storages/cats", {"data": DATA | change} | keys).status_code == 200
    assert (
        root.patch("/storages/cats", {"data": DATA | change | {"prefix": "x"}}).status_code == 200
    )


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"access_key": "a"}, "storage_keys_invalid"),
        ({"secret_key": "s"}, "storage_keys_invalid"),
        ({"access_key": "a", "secret_key": "ü"}, "storage_keys_invalid"),
    ],
)
def test_half_a_key_is_refused(root, keys, code):
    assert refusal(made(root, keys=False, **keys)) == (400, code)


def test_other_storages_have_no_keys(root):
    body = {"name": "team", "type": "host_path", "data": {"path": "/srv/x"}}
    answer = root.post("/storages", body | {"access_key": "a", "secret_key": "s"})
    assert refusal(answer) == (400, "storage_keys_invalid")
    assert root.post("/storages", body | {"access_key": "", "secret_key": ""}).status_code == 201


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"endpoint": "ftp://s3.example.org"}, "storage_data_invalid"),
        ({"endpoint": "https://user:pass@s3.example.org"}, "storage_data_invalid"),
        ({"endpoint": "https://s3.example.org/path"}, "storage_data_invalid"),
        ({"endpoint": "https://s3.example.org?x"}, "storage_data_invalid"),
        ({"endpoint": "s3.example.org"}, "storage_data_invalid"),
        ({"endpoint": "https://[1.2.3.4]"}, "storage_data_invalid"),
        ({"endpoint": "https://s3.example.org:65536"}, "storage_data_invalid"),
        ({"endpoint": "https://s3.example.org:\u0664\u0664"}, "storage_data_invalid"),
        ({"endpoint": "http://169.254.169.254"}, "storage_endpoint_closed"),
        ({"endpoint": "http://[fe80::1]"}, "storage_endpoint_closed"),
        ({"endpoint": "http://[::ffff:169.254.169.254]:80"}, "storage_endpoint_closed"),
        ({"endpoint": "http://0.0.0.0:9000"}, "storage_endpoint_closed"),
        ({"endpoint": "http://metadata.google.internal"}, "storage_endpoint_closed"),
        ({"bucket": ".."}, "storage_data_invalid"),
        ({"bucket": "a/b"}, "storage_data_invalid"),
        ({"prefix": "../other"}, "storage_data_invalid"),
        ({"prefix": "team/"}, "storage_data_invalid"),
        ({"prefix": "/team"}, "storage_data_invalid"),
        ({"region": "Mars!"}, "storage_data_invalid"),
        ({"path_style": "maybe"}, "storage_data_invalid"),
        ({"path": "/srv"}, "storage_data_invalid"),
    ],
)
def test_16_store_that_is_no_store_is_refused(root, change, code):
    assert refusal(made(root, data=DATA | change)) == (400, code)
    assert not Storage.objects.exists()


@pytest.mark.parametrize(
    "endpoint", ["http://10.0.0.7:9000", "http://minio:9000", "http://[fd00::1]"]
)
def test_store_on_premises_is_allowed(root, endpoint):
    assert made(root, data=DATA | {"endpoint": endpoint}).status_code == 201


def test_bucket_has_no_mount_options_and_is_no_home(root):
    assert refusal(made(root, mount_options=["hard"])) == (400, "mount_option_invalid")
    answer = made(root, home=True, per_user=True)
    assert refusal(answer) == (400, "storage_home_shared")


def test_02_folders_for_users_do_not_overlap_with_another_storage(root):
    made(root, per_user=True)
    for prefix in ({}, {"prefix": "team"}, {"prefix": "team/cats/ann"}):
        data = {key: value for key, value in DATA.items() if key != "prefix"} | prefix
        assert refusal(made(root, name="other", data=data)) == (409, "storage_overlaps")
    for endpoint in ("https://S3.EXAMPLE.org", "http://s3.example.org:80"):
        data = DATA | {"endpoint": endpoint}
        assert refusal(made(root, name="other", data=data)) == (409, "storage_overlaps")
    beside = made(root, name="other", data=DATA | {"prefix": "team/dogs"})
    assert beside.status_code == 201, beside.content


def test_node_is_sent_the_place_and_the_keys_for_jobs_that_mount_it(root, alice, vc, node):
    made(root, vc)
    made(root, vc, name="own", per_user=True, read_only=True, data=DATA | {"prefix": "users"})
    job = submitted(alice, file_with(vc, "cats", {"name": "own", "mountPath": "/own"}))
    cats, own = copies_of(job)
    assert (cats.storage, cats.endpoint, cats.bucket) == ("cats", DATA["endpoint"], "sets")
    assert (cats.prefix, cats.user_folder, cats.target) == ("team/cats", "", "/mnt/cats")
    assert (cats.access_key, cats.secret_key, cats.read_only) == (ACCESS, SECRET, False)
    assert (own.prefix, own.user_folder, own.target, own.read_only) == (
        "users",
        "alice",
        "/own",
        True,
    )
    assert SECRET not in repr(cats)


def test_node_is_sent_new_keys_for_what_it_runs_already(root, alice, vc, node):
    made(root, vc)
    copies_of(submitted(alice, file_with(vc, "cats")))
    before = Node.objects.get().desired_revision
    keys = {"access_key": ACCESS, "secret_key": "a new one"}
    assert root.patch("/storages/cats", keys).status_code == 200
    assert Node.objects.get().desired_revision > before
    (spec,) = desired_attempts(node.pk)
    assert spec.s3[0].secret_key == "a new one"
    with CaptureQueriesContext(connection) as queries:
        desired_attempts(node.pk)
    assert len(queries) == 2, "its attempts, and when their storages were changed"


def test_27_keys_are_shown_to_no_one_who_runs_jobs(root, alice, vc, node):
    made(root, vc)
    job = submitted(alice, file_with(vc, "cats"))
    copies_of(job)
    api = Api(alice)
    seen = [api.get(f"/jobs/{job.pk}"), api.get("/storages/cats"), api.get("/storages")]
    texts = [answer.content.decode() for answer in seen]
    texts += [repr(Job.objects.values().get()), repr(TaskAttempt.objects.values().get())]
    for hidden in (ACCESS, SECRET, "s3.example.org"):
        assert not [text for text in texts if hidden in text]
    assert seen[1].json()["has_keys"] is False


def test_dataset_in_a_bucket_is_a_folder_of_it_and_read_only(root, alice, vc, node):
    made(root, vc)
    body = {"virtual_cluster": vc.name, "name": "kittens", "storage": "cats", "path": "young/2"}
    assert Api(alice).post("/datasets", body).status_code == 201
    job = submitted(alice, file_with(vc, skep={"datasets": ["kittens"]}))
    (copy,) = copies_of(job)
    assert (copy.prefix, copy.target) == ("team/cats/young/2", "/datasets/kittens")
    assert copy.read_only


def refused(job: Job, node: Any) -> tuple[str, str]:
    assert str(job.pk) in tick()
    (attempt,) = attempts_of(job)
    return desired_state(node.pk).refused[attempt.pk]


def test_agent_that_knows_no_buckets_is_sent_none(root, alice, vc, node):
    made(root, vc)
    inventory = make_inventory(make_gpus(node.name, 8))
    hello = make_hello(node.instance_id, inventory, features=[])
    older = cluster.open_session(node.pk, node.instance_id, hello)
    code, message = refused(submitted(alice, file_with(vc, "cats")), older)
    assert (code, "update the agent" in message) == ("storage_unavailable", True)
    hello = hello.model_copy(update={"features": [S3_MOUNTS]})
    cluster.open_session(node.pk, node.instance_id, hello)
    assert len(copies_of(submitted(alice, file_with(vc, "cats") | {"name": "later"}))) == 1


def test_keys_that_no_key_of_the_server_opens_refuse_the_job(root, alice, vc, node):
    made(root, vc)
    job = submitted(alice, file_with(vc, "cats"))
    Storage.objects.update(sealed=b"of another server")
    code, message = refused(job, node)
    assert (code, "cats" in message) == ("storage_unavailable", True)


def test_keys_open_nothing_in_a_row_that_was_changed(root, alice, vc, node):
    """By who may write to the database and has no key of the server."""
    made(root, vc)
    job = submitted(alice, file_with(vc, "cats"))
    Storage.objects.update(data=DATA | {"endpoint": "https://evil.example.org"})
    assert refused(job, node)[0] == "storage_unavailable"


def test_withdrawn_grant_holds_for_buckets_too(root, alice, vc, node):
    made(root, vc)
    job = submitted(alice, file_with(vc, "cats"))
    root.delete(f"/storages/cats/grants/{vc.name}")
    assert refused(job, node)[0] == "storage_forbidden"


def test_only_admins_make_buckets(root, alice, vc):
    body = {"name": "x", "type": "s3", "data": DATA}
    assert Api(alice).post("/storages", body).status_code == 403
    ann = make_user()
    make_vc("b", members=[ann])
    assert json.loads(Api(ann).get("/storages").content)["results"] == []
