"""Nodes over REST: reading them all at once, joining, cordon."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import (
    join_node,
    make_gpus,
    make_inventory,
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
    release,
)

from skep_platform.cluster import services
from skep_platform.cluster.models import Device, Node
from skep_platform.core.notifications import valkey

pytestmark = pytest.mark.django_db


@pytest.fixture
def live():
    """Writes the newest sample of a GPU as telemetry does."""
    keys = []

    def write(node: Node, uuid: str, util: float, mem: int) -> None:
        keys.append(f"skep:gpu:live:{node.pk}")
        valkey().hset(keys[-1], uuid, json.dumps({"t": 1.0, "util": util, "mem": mem}))

    yield write
    for key in keys:
        valkey().delete(key)


def test_node_says_what_it_has(live):
    node = make_node("alpha", gpus=1, driver_version="580.1", labels={"rack": "r1"})
    live(node, "GPU-alpha-0", 87.5, 1234)
    shown = Api(make_user()).get("/nodes/alpha").json()
    assert shown["last_heartbeat_at"].endswith("Z")
    assert shown["lease_expires_at"] > shown["last_heartbeat_at"]
    del shown["last_heartbeat_at"], shown["lease_expires_at"]
    disk = {"disk_free_mb": None, "disk_total_mb": None, "disk_low": False}
    assert {name: shown.pop(name) for name in disk} == disk
    assert shown.pop("log_bytes_waiting") == 0
    assert shown == {
        "id": str(node.pk),
        "name": "alpha",
        "state": "ONLINE",
        "cordoned": False,
        "cordon_reason": "",
        "faults_24h": 0,
        "draining": False,
        "empty": True,
        "address": "127.0.0.1",
        "cpus": 64.0,
        "memory_mb": 262144,
        "runtime": "mock",
        "driver_version": "580.1",
        "engine_version": "",
        "network_problem": "",
        "warnings": [],
        "below_floor": [],
        "components": {},
        "checks_needed": 0,
        "maintenance_from": None,
        "maintenance_until": None,
        "agent_version": "test",
        "labels": {"rack": "r1"},
        "gpus": [
            {
                "uuid": "GPU-alpha-0",
                "model": "A100",
                "index": 0,
                "memory_mb": 40960,
                "health": "HEALTHY",
                "problem": "",
                "used_by": None,
                "utilization": 87.5,
                "memory_used_mb": 1234,
            }
        ],
    }


def test_job_on_a_gpu_is_named_only_to_those_who_may_see_it(admin):
    ann = make_user()
    vc = make_vc("vision", members=[ann])
    devices = list(make_node("alpha", gpus=2).devices.order_by("index"))
    job = make_job(vc, ann, name="secret-plan")
    release(place(make_job(vc, ann), devices))
    place(job, devices[:1])

    def used_by(api: Api):
        return [gpu["used_by"] for gpu in api.get("/nodes/alpha").json()["gpus"]]

    full = {"job_id": str(job.pk), "job_name": "secret-plan", "virtual_cluster": "vision"}
    assert used_by(admin) == used_by(Api(ann)) == [full, None]
    assert used_by(Api(make_user())) == [{"virtual_cluster": None}, None]
    vc.memberships.create(user=(colleague := make_user()))
    assert used_by(Api(colleague)) == [{"virtual_cluster": "vision"}, None]


def test_list_of_50_nodes_takes_a_fixed_number_of_queries(django_assert_num_queries):
    """400 GPUs, all in use: token, page of nodes, GPUs, leases, what the caller may see."""
    ann = make_user()
    vc = make_vc(members=[ann])
    job = make_job(vc, ann, tasks=50, gpus=8)
    for rank in range(50):
        place(job, list(make_node(gpus=8).devices.all()), rank=rank)
    api = Api(ann)
    with django_assert_num_queries(5):
        rows = api.get("/nodes").json()["results"]
    assert sum(len(row["gpus"]) for row in rows) == 400
    assert all(gpu["used_by"]["job_id"] == str(job.pk) for row in rows for gpu in row["gpus"])


def test_list_is_filtered_and_paged(admin):
    for i in range(3):
        make_node(f"a{i}", gpus=1)
    make_node("b0", gpus=1, model="H100")
    join_node("b1")

    def names(**query):
        return [row["name"] for row in admin.get("/nodes", **query).json()["results"]]

    assert names(state="JOINED") == ["b1"]
    assert names(state="joined,lost,ONLINE", search="B") == ["b0", "b1"]
    assert names(gpu_model="H100") == ["b0"]
    assert names(limit=2) == ["a0", "a1"]
    assert names(state="nonsense") == []


def test_absent_gpus_and_removed_nodes_are_not_listed(admin):
    node = make_node("alpha", gpus=2)
    one = make_inventory(make_gpus("alpha", 1))
    services.update_inventory(node.pk, node.session_epoch, one)
    make_node("beta", gpus=1)
    admin.delete("/nodes/beta")
    (row,) = admin.get("/nodes").json()["results"]
    assert [gpu["uuid"] for gpu in row["gpus"]] == ["GPU-alpha-0"]


def test_values_of_a_node_that_is_not_online_are_not_live(live):
    node = make_node("alpha", gpus=1)
    live(node, "GPU-alpha-0", 50, 1)
    services.close_session(node.pk, node.session_epoch)
    (gpu,) = Api(make_user()).get("/nodes/alpha").json()["gpus"]
    assert (gpu["utilization"], gpu["memory_used_mb"]) == (None, None)


def test_nodes_are_shown_without_valkey(monkeypatch):
    import redis

    dead = redis.Redis(port=1, socket_connect_timeout=0.1)
    monkeypatch.setattr("skep_platform.cluster.queries.valkey", lambda: dead)
    make_node("alpha", gpus=1)
    (gpu,) = Api(make_user()).get("/nodes/alpha").json()["gpus"]
    assert gpu["utilization"] is None


@pytest.mark.parametrize("ttl", [0, 367 * 86400, 10**30])
def test_the_lifetime_of_a_join_token_is_bounded(admin, ttl):
    assert admin.post("/nodes/join-tokens", {"expires_in_s": ttl}).status_code == 400


def test_joining_over_rest(admin):
    made = admin.post("/nodes/join-tokens", {"expires_in_s": 60})
    assert made.status_code == 201
    token = made.json()["token"]
    assert token in made.json()["command"]
    body = {"token": token, "name": "gpu-07", "instance_id": "i"}
    joined = Api().post("/nodes/join", body)
    assert joined.status_code == 201
    answer = joined.json()
    assert services.authenticate_node(answer["credential"]).pk == Node.objects.get().pk
    assert (answer["node_id"], answer["name"]) == (str(Node.objects.get().pk), "gpu-07")
    other = {**body, "instance_id": "another"}
    assert refusal(Api().post("/nodes/join", other)) == (403, "join_token_invalid")


def test_join_token_needs_no_body(admin):
    assert admin.client.post("/api/v1/nodes/join-tokens").status_code == 201


@pytest.mark.parametrize("name", ["join", "join-tokens", "a/b", ""])
def test_node_cannot_take_a_name_of_the_api(admin, name):
    token = admin.post("/nodes/join-tokens", {}).json()["token"]
    body = {"token": token, "name": name, "instance_id": "i"}
    assert Api().post("/nodes/join", body).status_code == 400


def test_cordon_uncordon_and_remove(admin):
    node = make_node("alpha", gpus=1)
    assert admin.post("/nodes/alpha/cordon").json()["cordoned"]
    assert not admin.post("/nodes/alpha/uncordon").json()["cordoned"]
    attempt = place(make_job(make_vc(), admin.user), list(node.devices.all()))
    assert refusal(admin.delete("/nodes/alpha")) == (409, "node_busy")
    release(attempt)
    assert admin.delete("/nodes/alpha").status_code == 204
    assert refusal(admin.get("/nodes/alpha")) == (404, "not_found")
    assert refusal(admin.post("/nodes/alpha/cordon")) == (404, "not_found")
    assert Device.objects.get().health == Device.Health.ABSENT


def test_25_credential_is_in_no_answer_but_the_first(admin):
    node, credential = join_node("alpha")
    texts = [admin.get(path).content.decode() for path in ("/nodes", "/nodes/alpha")]
    assert all(
        secret not in text for text in texts for secret in (credential, node.credential_hash)
    )


def test_finding_c5_a_page_of_nodes_costs_the_same_queries_and_reads_no_large_column(live):
    api = Api(make_user())
    for n in range(3):
        live(make_node(f"few-{n}", gpus=2), f"GPU-few-{n}-0", 50, 1000)
    with CaptureQueriesContext(connection) as few:
        api.get("/nodes?limit=500")
    for n in range(40):
        make_node(f"more-{n}", gpus=8)
    with CaptureQueriesContext(connection) as many:
        shown = api.get("/nodes?limit=500").json()["results"]
    assert len(many) == len(few) <= 6
    read = "".join(query["sql"].split(" FROM ")[0] for query in many)
    assert not any(large in read for large in ("topology", "admin_labels", "pci_bus_id"))
    assert {len(node["gpus"]) for node in shown} == {2, 8}
    assert [gpu["index"] for gpu in shown[-1]["gpus"]] == list(range(8))
    assert sum(gpu["utilization"] == 50 for node in shown for gpu in node["gpus"]) == 3
