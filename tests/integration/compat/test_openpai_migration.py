"""`skep migrate`: read by OpenPAI's REST API as this server plays it, then applied to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import respx
from tests.support.jobs_world import submit
from tests.support.platform_factories import make_user, make_vc
from tests.support.served_client import served
from typer.testing import CliRunner, Result

from skep_client.cli import app
from skep_platform.accounts import groups
from skep_platform.accounts.models import Group, User
from skep_platform.accounts.services import create_token
from skep_platform.storage import services as storage
from skep_platform.storage.models import Storage, StorageGrant
from skep_platform.tenancy import memberships
from skep_platform.tenancy.models import Membership, RoleGrant, VirtualCluster

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]
NFS = {"server": "nfs.example.org", "path": "/data"}


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Any:
    user = make_user("root", admin=True)
    token = create_token(user, "migrate", scope="admin")[1]
    monkeypatch.setenv("SKEP_SERVER", "http://skep.test")
    monkeypatch.setenv("SKEP_TOKEN", token)
    monkeypatch.setenv("OPENPAI_TOKEN", token)
    monkeypatch.setenv("COLUMNS", "200")
    with respx.mock(assert_all_called=False) as router:
        router.route(host="skep.test").mock(side_effect=served)
        router.route(host="pai.test").mock(side_effect=served)
        yield user


def skep(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def read(path: Any, *more: Any) -> Any:
    done = skep("migrate", "openpai", "--server", "http://pai.test/", "--plan", path, *more)
    assert done.exit_code == 0, done.output
    return json.loads(path.read_text())


def a_cluster(root: User) -> None:
    """Users, a group with rights, two virtual clusters and storages, as on an OpenPAI cluster."""
    vision = make_vc("vision")
    make_vc("speech")
    group = groups.create(root, "lab", "All of the lab", "cn=lab")
    memberships.set_group(root, vision, "lab", "member")
    for name in ("mei", "omar"):
        make_user(name)
    groups.add_members(root, group, ["mei"])
    memberships.set_member(root, VirtualCluster.objects.get(name="speech"), "omar", "member")
    data = storage.create(root, "data", "nfs", NFS, read_only=True, default=True)
    storage.grant_group(root, data, "lab")
    storage.create(root, "local", "host_path", {"path": "/srv/local"})


def cleared() -> None:
    """Make this server a new one, but for its admin."""
    StorageGrant.objects.all().delete()
    Storage.objects.all().delete()
    RoleGrant.objects.all().delete()
    Membership.objects.all().delete()
    Group.objects.all().delete()
    VirtualCluster.objects.all().delete()
    User.objects.exclude(username="root").delete()


def test_a_plan_is_read_applied_to_a_new_server_and_leaves_nothing_to_do(root, tmp_path):
    a_cluster(root)
    path = tmp_path / "plan.json"
    plan = read(path)
    assert plan["virtual_clusters"] == sorted(plan["virtual_clusters"])
    assert {"vision", "speech"} <= set(plan["virtual_clusters"])
    users = {one["username"]: one for one in plan["users"]}
    assert (users["mei"]["groups"], users["mei"]["virtual_clusters"]) == (["lab"], [])
    assert (users["omar"]["groups"], users["omar"]["virtual_clusters"]) == ([], ["speech"])
    assert users["root"]["admin"]
    assert [one["name"] for one in plan["storages"]] == ["data"]
    assert any("local" in note for note in plan["notes"])
    assert "Nothing is left to do" in skep("migrate", "apply", path).output

    cleared()
    shown = skep("migrate", "apply", "--dry-run", path)
    assert (shown.exit_code, User.objects.count(), Group.objects.count()) == (0, 1, 0)
    assert "create group lab" in shown.output
    done = skep("migrate", "apply", path)
    assert done.exit_code == 0, done.output
    assert "SETS A PASSWORD AT" in done.output
    assert Membership.objects.get(user__username="mei", vc__name="vision").role == "member"
    assert Membership.objects.get(user__username="omar", vc__name="speech").role == "member"
    made = Storage.objects.get(name="data")
    assert (made.data, made.read_only, made.default) == (NFS, True, True)
    assert StorageGrant.objects.filter(storage=made, group__name="lab").exists()
    assert not User.objects.get(username="mei").has_usable_password()

    again = read(tmp_path / "again.json")
    for part in ("virtual_clusters", "groups", "users", "storages"):
        assert again[part] == plan[part], part
    assert "Nothing is left to do" in skep("migrate", "apply", path).output


def test_what_is_here_keeps_what_it_has_and_a_new_admin_is_one(root, tmp_path):
    a_cluster(root)
    make_user("kim", admin=True)
    path = tmp_path / "plan.json"
    read(path)
    User.objects.filter(username="kim").delete()
    speech = VirtualCluster.objects.get(name="speech")
    memberships.set_member(root, speech, "omar", "admin")
    groups.update(root, groups.find("lab"), description="Ours")
    done = skep("migrate", "apply", path)
    assert done.exit_code == 0, done.output
    assert User.objects.get(username="kim").is_admin
    assert Membership.objects.get(user__username="omar", vc=speech).role == "admin"
    assert Group.objects.get(name="lab").description == "Ours"


def test_a_bad_user_is_named_and_the_others_are_imported(root, tmp_path):
    a_cluster(root)
    path = tmp_path / "plan.json"
    plan = read(path)
    plan["users"] += [
        {"username": "not a\nname"},
        {"username": "nia", "email": "nowhere"},
        {"username": "ravi"},
    ]
    path.write_text(json.dumps(plan))
    done = skep("migrate", "apply", path, "--json")
    assert done.exit_code == 1
    outcome = json.loads(done.stdout)
    assert [line.split(":")[0] for line in outcome["failed"]] == [
        "import not a\nname",
        "import nia",
    ]
    assert list(outcome["reset_urls"]) == ["ravi"]
    assert User.objects.filter(username="ravi").exists()


def test_job_files_are_written_below_the_folder(root, alice, vc, tmp_path):
    job = submit(alice, vc)
    folder = tmp_path / "jobs"
    read(tmp_path / "plan.json", "--jobs", folder)
    names = [one.name for one in folder.iterdir()]
    assert names == [f"alice~{job.name}.yaml"]
    assert "protocolVersion" in (folder / names[0]).read_text()


@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "a/b", ""])
def test_a_job_of_a_hostile_server_writes_no_file_elsewhere(root, tmp_path, name):
    with respx.mock(assert_all_called=False) as router:
        api = "http://evil.test/rest-server/api/v2"
        for path in ("virtual-clusters", "groups", "users"):
            router.get(f"{api}/{path}").respond(json={} if path[0] == "v" else [])
        router.get(f"{api}/storages").respond(json={"storages": []})
        router.get(f"{api}/jobs").respond(json=[{"username": "a", "name": name}])
        router.route(path__regex="/config$").respond(text="x: 1")
        folder = tmp_path / "jobs"
        read_from = ("migrate", "openpai", "--server", "http://evil.test", "--jobs", folder)
        done = skep(*read_from, "--plan", tmp_path / "plan.json")
        assert done.exit_code == 0, done.output
        written = {one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*")}
        assert written <= {"plan.json", "jobs", "jobs/a~...yaml"}


def test_refusals_are_sentences(root, tmp_path, monkeypatch):
    where = ("--server", "http://pai.test", "--plan", tmp_path / "plan.json")
    done = skep("migrate", "openpai", *where, "--token", "wrong")
    assert (done.exit_code, (tmp_path / "plan.json").exists()) == (1, False)
    assert (done.exception.code, done.exception.status) == ("UnauthorizedUserError", 401)
    (tmp_path / "bad.json").write_text('{"version": 1}')
    for name in ("bad.json", "missing.json"):
        assert skep("migrate", "apply", tmp_path / name).exit_code == 2


def test_a_server_that_is_no_openpai_is_named(root, tmp_path):
    where = ("--server", "http://other.test", "--plan", tmp_path / "plan.json")
    for answer in ([{"name": "vision"}], {"groups": 3}, None):
        with respx.mock(assert_all_called=False) as router:
            router.route(host="other.test").respond(json=answer)
            done = skep("migrate", "openpai", *where)
        assert (done.exit_code, done.exception.code) == (1, "server_unreachable"), done.output
    assert not (tmp_path / "plan.json").exists()
