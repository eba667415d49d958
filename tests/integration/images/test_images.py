"""Images by name, and who may use which."""

from __future__ import annotations

import pytest
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.core.models import Event
from skep_platform.images.models import Image

pytestmark = pytest.mark.django_db


def add(admin: Api, name: str, *vcs: str):
    body = {"name": name, "reference": f"registry/{name}:1", "virtual_clusters": vcs}
    return admin.post("/images", body)


def names(api: Api) -> list[str]:
    return [row["name"] for row in api.get("/images").json()["results"]]


def test_admin_creates_changes_and_deletes(admin):
    make_vc("a")
    made = add(admin, "torch")
    assert made.status_code == 201
    assert admin.patch("/images/torch", {"name": "pt"}).json()["name"] == "pt"
    assert admin.patch("/images/pt", {"name": "torch"}).status_code == 200
    body = {"reference": "torch:2", "description": "Newest", "virtual_clusters": ["a"]}
    changed = admin.patch("/images/torch", body).json()
    assert {k: changed[k] for k in body} == body
    assert admin.delete("/images/torch").status_code == 204
    kinds = Event.objects.filter(subject_type="image", actor="root").order_by("id")
    assert list(kinds.values_list("kind", flat=True)) == [
        "image.created",
        *["image.changed"] * 3,
        "image.deleted",
    ]


def test_image_that_names_virtual_clusters_exists_only_for_their_members(admin):
    ann, bob = make_user(), make_user()
    make_vc("a", members=[ann])
    make_vc("b", members=[bob])
    make_vc("c", members=[bob])
    add(admin, "everybody")
    add(admin, "for-a", "a")
    add(admin, "for-all-three", "a", "b", "c")
    add(admin, "for-c", "c")
    assert names(Api(ann)) == ["everybody", "for-a", "for-all-three"]
    assert names(Api(bob)) == ["everybody", "for-all-three", "for-c"]
    assert names(Api(make_user())) == ["everybody"]
    assert refusal(Api(bob).get("/images/for-a")) == (404, "not_found")


def test_member_learns_of_no_other_virtual_cluster_by_an_image(admin):
    ann = make_user()
    make_vc("a", members=[ann])
    make_vc("secret")
    add(admin, "shared", "secret", "a")
    assert Api(ann).get("/images/shared").json()["virtual_clusters"] == ["a"]
    assert admin.get("/images/shared").json()["virtual_clusters"] == ["a", "secret"]


def test_member_cannot_write(admin):
    ann = make_user()
    make_vc("a", vc_admins=[ann])
    add(admin, "for-a", "a")
    api = Api(ann)
    assert refusal(api.patch("/images/for-a", {"reference": "evil"})) == (403, "forbidden")
    assert refusal(api.delete("/images/for-a")) == (403, "forbidden")
    assert refusal(api.post("/images", {"name": "x", "reference": "y"})) == (403, "forbidden")


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "a b",
        "a\nb",
        "UPPER",
        "a" * 513,
        "a@sha256:12",
        "--privileged",
        "a:b:c",
        "/etc",
        "a\x00",
    ],
)
def test_reference_must_look_like_one(admin, reference):
    answer = admin.post("/images", {"name": "x", "reference": reference})
    assert answer.status_code == 400
    assert not Image.objects.exists()


@pytest.mark.parametrize(
    "reference",
    [
        "busybox",
        "pytorch/pytorch:2.9.0-cuda13",
        "localhost:5000/team/x",
        "GHCR.io/team/x:v1",
        "x@sha256:" + "0" * 64,
    ],
)
def test_usual_references_are_taken(admin, reference):
    assert admin.post("/images", {"name": "x", "reference": reference}).status_code == 201


def test_unknown_virtual_cluster_and_taken_name_are_reported(admin):
    add(admin, "torch")
    assert refusal(add(admin, "torch")) == (409, "name_taken")
    assert refusal(add(admin, "other", "nowhere")) == (404, "not_found")
    assert not Image.objects.filter(name="other").exists()


def test_22_creator_cannot_be_claimed(admin):
    body = {"name": "x", "reference": "y", "created_by": 1}
    assert refusal(admin.post("/images", body)) == (400, "invalid")
