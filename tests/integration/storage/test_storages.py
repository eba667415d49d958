"""Storages and their grants over REST: what admins may describe, and who learns of what."""

from __future__ import annotations

import pytest
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.accounts import groups
from skep_platform.audit.models import AuditEntry
from skep_platform.core.models import Event
from skep_platform.storage.models import Storage

pytestmark = pytest.mark.django_db


def nfs(admin: Api, name: str = "team", **fields):
    body = {"name": name, "type": "nfs", "data": {"server": "nfs.example.org", "path": "/team"}}
    return admin.post("/storages", body | fields)


def host_path(admin: Api, path: str, name: str = "team", **fields):
    return admin.post(
        "/storages", {"name": name, "type": "host_path", "data": {"path": path}, **fields}
    )


def names(api: Api, **query) -> list[str]:
    return [row["name"] for row in api.get("/storages", **query).json()["results"]]


def test_admin_creates_changes_grants_and_deletes(admin):
    make_vc("a")
    made = nfs(admin, mount_options=["vers=4.2", "hard"], per_user=True)
    assert made.status_code == 201, made.content
    assert made.json()["grants"] == []
    changed = admin.patch("/storages/team", {"read_only": True, "description": "Ours"}).json()
    assert (changed["read_only"], changed["description"]) == (True, "Ours")
    granted = admin.put("/storages/team/grants/a", {"read_only": True}).json()
    assert granted["grants"] == [{"virtual_cluster": "a", "read_only": True}]
    assert admin.put("/storages/team/grants/a", {}).json()["grants"][0]["read_only"] is False
    assert admin.delete("/storages/team/grants/a").status_code == 204
    assert admin.delete("/storages/team/grants/a").status_code == 204
    assert admin.get("/storages/team").json()["grants"] == []
    assert admin.delete("/storages/team").status_code == 204
    kinds = Event.objects.filter(subject_type="storage", actor="root").order_by("id")
    actions = AuditEntry.objects.filter(target_type="storage").order_by("id")
    assert list(actions.values_list("action", "target_name")) == [
        (f"storage.{action}", "team")
        for action in (*("create", "update", "grant.set", "grant.set", "grant.remove", "delete"),)
    ]
    assert list(kinds.values_list("kind", flat=True)) == [
        "storage.created",
        "storage.changed",
        "storage.granted",
        "storage.granted",
        "storage.revoked",
        "storage.deleted",
    ]


def test_storage_exists_only_for_members_of_who_it_was_granted_to(admin):
    ann, bob = make_user(), make_user()
    make_vc("a", members=[ann])
    make_vc("secret", members=[bob])
    nfs(admin, "data", default=True)
    nfs(admin, "other")
    assert names(Api(ann)) == []
    for vc in ("a", "secret"):
        admin.put(f"/storages/data/grants/{vc}", {})
    admin.put("/storages/other/grants/secret", {})
    assert (names(Api(ann)), names(Api(bob))) == (["data"], ["data", "other"])
    assert names(Api(bob), default="true") == ["data"]
    assert names(Api(bob), default="false") == ["other"]
    seen = Api(ann).get("/storages/data").json()
    assert seen["grants"] == [{"virtual_cluster": "a", "read_only": False}]
    assert (seen["data"], seen["mount_options"]) == ({}, [])
    assert admin.get("/storages/data").json()["data"]["server"] == "nfs.example.org"
    assert refusal(Api(ann).get("/storages/other")) == (404, "storage_not_found")


def test_grant_to_a_group_shows_the_storage_to_its_users_only(admin):
    ann, bob = make_user(), make_user()
    make_vc("a", members=[ann, bob])
    group = groups.create(admin.user, "research")
    groups.add_members(None, group, [ann.username])
    nfs(admin, "data")
    granted = admin.put("/storages/data/groups/research", {"read_only": True}).json()
    assert granted["group_grants"] == [{"group": "research", "read_only": True}]
    assert (granted["grants"], names(Api(ann)), names(Api(bob))) == ([], ["data"], [])
    assert Api(ann).get("/storages/data").json()["group_grants"] == granted["group_grants"]
    assert refusal(Api(bob).get("/storages/data")) == (404, "storage_not_found")
    admin.put("/storages/data/grants/a", {})
    assert Api(bob).get("/storages/data").json()["group_grants"] == []
    assert admin.delete("/storages/data/groups/research").status_code == 204
    assert admin.delete("/storages/data/groups/research").status_code == 204
    assert admin.get("/storages/data").json()["group_grants"] == []
    assert refusal(admin.put("/storages/data/groups/nobody", {})) == (404, "not_found")


def test_list_makes_a_constant_number_of_queries(admin, django_assert_max_num_queries):
    ann = make_user()
    for number in range(12):
        make_vc(f"vc{number}", members=[ann])
        nfs(admin, f"storage{number}")
        for vc in range(number + 1):
            admin.put(f"/storages/storage{number}/grants/vc{vc}", {})
        group = groups.create(admin.user, f"group{number}")
        groups.add_members(None, group, [ann.username])
        admin.put(f"/storages/storage{number}/groups/group{number}", {})
    api = Api(ann)
    api.get("/storages")
    with django_assert_max_num_queries(5):
        assert len(names(api)) == 12


def test_unknown_virtual_cluster_and_taken_name_are_reported(admin):
    assert nfs(admin).status_code == 201
    assert refusal(nfs(admin)) == (409, "name_taken")
    assert refusal(admin.put("/storages/team/grants/nowhere", {})) == (404, "not_found")
    assert refusal(admin.delete("/storages/team/grants/nowhere")) == (404, "not_found")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/etc", "/etc/ssl", "/proc", "/proc/1/root", "/sys/fs", "/dev/shm", "/root/.ssh"),
        *("/var/run/docker.sock", "/run/containerd/containerd.sock", "/var", "/var/lib"),
        *("/var/lib/docker/volumes", "/run", "/usr/bin", "/boot", "/var/lib/skep-agent"),
    ],
)
def test_02_no_storage_shows_the_system_of_a_node(admin, path):
    code = "storage_data_invalid" if path == "/" else "storage_path_closed"
    assert refusal(host_path(admin, path)) == (400, code)
    assert not Storage.objects.exists()


@pytest.mark.parametrize(
    "path",
    [
        *("srv/data", "", "/srv/../etc", "/srv/./data", "/srv//etc", "/srv/data/", "/srv/a b"),
        *("/srv,exec", "/srv:/etc", "/srv/%2e%2e/etc", "/srv/données", '/srv/"x"', "/srv\\x"),
        *("/srv/$(id)", "/srv/..", "~", "/" + "a" * 1100, "/srv\n/etc"),
    ],
)
def test_02_path_of_a_storage_is_plain(admin, path):
    assert host_path(admin, path).status_code == 400
    assert nfs(admin, data={"server": "nfs", "path": path}).status_code == 400
    assert not Storage.objects.exists()


@pytest.mark.parametrize(
    "option",
    [
        *("suid", "dev", "exec", "remount", "bind", "addr=10.0.0.1", "clientaddr=1.2.3.4"),
        *("vers=4,suid", "hard,dev", "context=x", "device=/dev/sda", "o=bind", "rsize=x", ""),
        *("vers=2", "type=none", "nodev", "vers=4.2\nsuid", "fsc", "rbind"),
    ],
)
def test_02_only_listed_mount_options_are_taken(admin, option):
    assert nfs(admin, mount_options=[option]).status_code == 400
    assert not Storage.objects.exists()


@pytest.mark.parametrize("server", ["", "a b", "nfs:/etc", "-o", "nfs,suid", "../x", "a..b", "::1"])
def test_02_server_of_a_storage_is_a_name(admin, server):
    assert nfs(admin, data={"server": server, "path": "/x"}).status_code == 400


@pytest.mark.parametrize(
    "data", [{}, {"path": "/srv"}, {"server": "x"}, {"server": "x", "path": "/y", "o": "suid"}]
)
def test_data_has_what_its_type_needs_and_nothing_else(admin, data):
    assert refusal(nfs(admin, data=data)) == (400, "storage_data_invalid")


@pytest.mark.parametrize("path", ["/srv/home", "/srv/home/ann", "/srv"])
def test_02_folders_of_users_are_shown_by_no_other_storage(admin, path):
    assert host_path(admin, "/srv/home", per_user=True).status_code == 201
    assert refusal(host_path(admin, path, "second")) == (409, "storage_overlaps")
    assert host_path(admin, "/srv/homes", "third").status_code == 201
    refused = admin.patch("/storages/third", {"data": {"path": path}})
    assert refusal(refused) == (409, "storage_overlaps")


def test_shared_folders_may_overlap_until_one_is_for_users(admin):
    assert host_path(admin, "/srv/data", "all").status_code == 201
    assert host_path(admin, "/srv/data/public", "public", read_only=True).status_code == 201
    refused = admin.patch("/storages/public", {"per_user": True})
    assert refusal(refused) == (409, "storage_overlaps")
    assert Storage.objects.get(name="public").per_user is False
    assert nfs(admin, "root", data={"server": "n", "path": "/"}).status_code == 201
    inside = nfs(admin, "in", data={"server": "n", "path": "/in"}, per_user=True)
    assert refusal(inside) == (409, "storage_overlaps")
    elsewhere = nfs(admin, "in", data={"server": "m", "path": "/in"}, per_user=True)
    assert elsewhere.status_code == 201


def test_22_type_and_creator_of_a_storage_cannot_be_changed(admin):
    nfs(admin)
    for field, value in (("type", "host_path"), ("name", "x"), ("created_by", 1), ("grants", [])):
        assert refusal(admin.patch("/storages/team", {field: value})) == (400, "invalid")


def test_home_storage_has_a_folder_for_each_user_and_is_the_only_one_of_its_holder(admin):
    make_vc("a")
    groups.create(admin.user, "research")
    assert refusal(host_path(admin, "/srv/h", home=True)) == (400, "storage_home_shared")
    assert host_path(admin, "/srv/h", "h", home=True, per_user=True).json()["home"] is True
    assert host_path(admin, "/srv/i", "i", per_user=True).status_code == 201
    assert refusal(admin.patch("/storages/h", {"per_user": False})) == (400, "storage_home_shared")
    for to in ("grants/a", "groups/research"):
        assert admin.put(f"/storages/h/{to}", {}).status_code == 200
        assert admin.put(f"/storages/h/{to}", {"read_only": True}).status_code == 200
        assert admin.put(f"/storages/i/{to}", {}).status_code == 200
        assert refusal(admin.patch("/storages/i", {"home": True})) == (409, "home_taken")
        assert admin.delete(f"/storages/i/{to}").status_code == 204
    assert admin.patch("/storages/i", {"home": True}).status_code == 200
    assert refusal(admin.put("/storages/i/grants/a", {})) == (409, "home_taken")
