"""Images that are pulled to nodes in advance: who may ask, and what nodes are sent and report."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_agent.protocol import CachedImage, Prefetches, PrefetchReport
from skep_platform.cluster.models import Node
from skep_platform.images import credentials, prefetching, rules, services
from skep_platform.images.models import NodeImage, NodePrefetch, Prefetch

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh():
    prefetching.forget()
    yield
    prefetching.forget()


@pytest.fixture
def ann(vc):
    user = make_user("ann")
    vc.memberships.create(user=user, role="admin")
    return user


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def image(root):
    return services.create(root, "torch", "docker.io/library/torch:2.9")


def frame(node: Node) -> Prefetches:
    prefetching.forget()
    return Prefetches.model_validate_json(prefetching.frame(node.pk))


def report(prefetch_id: str, state: str, **fields: object) -> PrefetchReport:
    known = {"prefetch_id": prefetch_id, "state": state}
    return PrefetchReport.model_validate(known | fields)


def states(prefetch_id: str) -> dict[str, str]:
    rows = NodePrefetch.objects.filter(prefetch=prefetch_id)
    return dict(rows.values_list("node__name", "state"))


def test_a_vc_admin_asks_for_the_nodes_with_the_cells_of_the_own_virtual_cluster(vc, ann, image):
    mine, _ = make_node("gpu-1", gpus=8), make_node("gpu-2", gpus=8, model="H100")
    api, path = Api(ann), "/images/torch/prefetches"
    assert refusal(api.post(path, {"nodes": ["gpu-1"]})) == (403, "forbidden")
    body = {"virtual_cluster": vc.name}
    assert refusal(api.post(path, body | {"nodes": ["gpu-2"]})) == (404, "not_found")
    make_vc("other")
    assert refusal(api.post(path, {"virtual_cluster": "other"})) == (404, "not_found")
    made = api.post(path, body)
    assert made.status_code == 201, made.content
    assert states(made.json()["id"]) == {"gpu-1": "WAITING"}
    (spec,) = frame(mine).images
    assert spec.image.reference == "docker.io/library/torch:2.9"


def test_the_rules_of_the_virtual_cluster_hold_and_go_to_the_node(vc, ann, image):
    node = make_node("gpu-1", gpus=8)
    rules.replace(vc, ["vision/*"])
    path, body = "/images/torch/prefetches", {"virtual_cluster": vc.name}
    assert refusal(Api(ann).post(path, body)) == (400, "image_not_allowed")
    rules.replace(vc, ["torch"])
    assert Api(ann).post(path, body).status_code == 201
    rules.replace(vc, ["vision/*"])
    assert frame(node).images[0].image_patterns == ["vision/*"]


def test_an_image_of_another_virtual_cluster_is_not_prefetched(vc, ann, root):
    make_node("gpu-1", gpus=8)
    make_vc("other")
    services.create(root, "theirs", "x:1", virtual_clusters=["other"])
    path, body = "/images/theirs/prefetches", {"virtual_cluster": vc.name}
    for user in (ann, root):  # the admin knows the image, and it is not for this virtual cluster
        assert refusal(Api(user).post(path, body)) == (404, "not_found")


def test_credentials_go_to_the_node_alone(root, ann, vc):
    node = make_node("gpu-1", gpus=8)
    services.create(root, "private", "registry.example.org/x:1")
    credentials.store(vc, "registry.example.org", "robot", "hunter2-pull")
    made = Api(ann).post("/images/private/prefetches", {"virtual_cluster": vc.name})
    assert b"hunter2-pull" not in made.content
    (spec,) = frame(node).images
    assert (spec.image.username, spec.image.password) == ("robot", "hunter2-pull")
    assert "hunter2-pull" not in repr(spec)
    rows = [*Prefetch.objects.values_list(), *NodePrefetch.objects.values_list()]
    assert "hunter2-pull" not in str(rows)


def test_a_node_reports_progress_and_its_end_for_itself_alone(root, image):
    first, second = make_node("gpu-1"), make_node("gpu-2")
    made = Api(root).post("/images/torch/prefetches", {"nodes": ["gpu-1", "gpu-2"]}).json()
    reports = [report(made["id"], "pulling", percent=40, done=4, total=10), report("x", "done")]
    prefetching.apply_reports(first.pk, reports)
    shown = {
        row["node"]: (row["state"], row["percent"], row["done_bytes"], row["total_bytes"])
        for row in Api(root).get(f"/prefetches/{made['id']}/nodes").json()["results"]
    }
    assert shown == {"gpu-1": ("PULLING", 40, 4, 10), "gpu-2": ("WAITING", 0, 0, None)}
    prefetching.apply_reports(first.pk, [report(made["id"], "done", percent=100)])
    prefetching.apply_reports(second.pk, [report(made["id"], "failed", message="no\0 such")])
    prefetching.apply_reports(first.pk, [report(made["id"], "pulling", percent=3)])  # late
    assert states(made["id"]) == {"gpu-1": "DONE", "gpu-2": "FAILED"}
    listed = Api(root).get("/prefetches").json()["results"][0]
    assert (listed["done"], listed["failed"], listed["waiting"]) == (1, 1, 0)
    assert frame(first).images == []


def test_a_prefetch_is_cancelled_expires_and_is_deleted(root, image, vc, ann):
    node = make_node("gpu-1", gpus=8)
    body = {"nodes": ["gpu-1"], "hours": 2}
    made = Api(root).post("/images/torch/prefetches", body).json()
    assert refusal(Api(ann).delete(f"/prefetches/{made['id']}")) == (404, "not_found")
    assert Api(root).delete(f"/prefetches/{made['id']}").status_code == 204
    assert states(made["id"]) == {"gpu-1": "CANCELLED"}
    again = Api(root).post("/images/torch/prefetches", body).json()
    past = timezone.now() - timedelta(seconds=1)
    Prefetch.objects.filter(pk=again["id"]).update(expires_at=past)
    assert frame(node).images == []
    prefetching.tidy()
    assert states(again["id"]) == {"gpu-1": "EXPIRED"}
    Prefetch.objects.update(expires_at=past - prefetching.KEPT)
    prefetching.tidy()
    assert not Prefetch.objects.exists()


def test_there_are_only_so_many_at_a_time(root, image):
    make_node("gpu-1")
    path, body = "/images/torch/prefetches", {"nodes": ["gpu-1"]}
    for _ in range(prefetching.MAX_OPEN):
        assert Api(root).post(path, body).status_code == 201
    assert refusal(Api(root).post(path, body)) == (409, "too_many_prefetches")


def test_nodes_without_work_cost_no_query(root, image, django_assert_num_queries):
    node, idle = make_node("gpu-1"), make_node("gpu-2")
    Api(root).post("/images/torch/prefetches", {"nodes": ["gpu-1"]})
    with django_assert_num_queries(1):
        assert prefetching.nodes_with_work() == {node.pk}
        assert idle.pk not in prefetching.nodes_with_work()


def test_who_sees_which_images_of_a_node(root, image, vc, alice):
    node, other = make_node("gpu-1"), make_node("gpu-2")
    make_vc("other")
    services.create(root, "theirs", "theirs:1", virtual_clusters=["other"])
    reported = [CachedImage(reference=name, size=5) for name in ("torch:2.9", "theirs:1", "own:1")]
    prefetching.store_images({node.pk: reported, other.pk: reported[:1]})

    def names(user) -> list[tuple[str, str]]:
        rows = Api(user).get("/nodes/gpu-1/images").json()["results"]
        return [(row["reference"], row["image"]) for row in rows]

    assert names(root) == [("own:1", ""), ("theirs:1", "theirs"), ("torch:2.9", "torch")]
    assert names(alice) == [("torch:2.9", "torch")]
    held = Api(alice).get("/images/torch/nodes").json()["results"]
    assert sorted(row["node"] for row in held) == ["gpu-1", "gpu-2"]
    assert Api(alice).get("/images/torch").json()["nodes"] == 2
    assert refusal(Api(alice).get("/images/theirs/nodes")) == (404, "not_found")


def test_a_report_replaces_the_last_and_is_bounded():
    node = make_node("gpu-1")
    some = [CachedImage(reference=f"x:{n}", size=n) for n in range(3)]
    prefetching.store_images({node.pk: some})
    hostile = [CachedImage(reference="y" * 600, size=1), CachedImage(reference="z\0", size=1)]
    prefetching.store_images({node.pk: [CachedImage(reference="x:1", size=-7), *hostile]})
    assert list(NodeImage.objects.values_list("reference", "size")) == [("x:1", 0)]
    many = [CachedImage(reference=f"many:{n}", size=2**70) for n in range(1500)]
    prefetching.store_images({node.pk: many})
    assert NodeImage.objects.count() == 1000
