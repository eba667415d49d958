"""Logins, tokens, users, groups, virtual clusters, storages and nodes by OpenPAI's REST API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.jobs_world import placed
from tests.support.openpai_api import ROOT, Pai, refused
from tests.support.platform_factories import PASSWORD, make_user, make_vc

from skep_platform.accounts import groups
from skep_platform.accounts.models import ApiToken, User
from skep_platform.compat.accounts_api import LOGIN_TOKENS
from skep_platform.core.logs import configure
from skep_platform.storage import services as storage
from skep_platform.tenancy.models import Membership

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]
FORM = f"username=alice&password={PASSWORD}&expiration=3600"


@pytest.fixture
def root():
    return Pai(make_user("root", admin=True))


def test_the_cluster_introduces_itself_to_everybody(alice):
    info = Pai().get("/info").json()
    assert (info["launcherType"], info["authnMethod"]) == ("k8s", "basic")
    assert Pai().get("/authn/info").json()["authn_type"] == "basic"


def test_a_login_by_form_gives_a_token_that_ends_and_logs_out(alice):
    answer = Pai().post("/authn/basic/login", FORM, "form")
    body = answer.json()
    assert (body["user"], body["admin"]) == ("alice", False)
    left = ApiToken.objects.get(user=alice).expiry - timezone.now()
    assert timedelta(minutes=50) < left <= timedelta(hours=1)
    client = Pai()
    client.client.credentials(HTTP_AUTHORIZATION=f"Bearer {body['token']}")
    assert client.get("/users/alice").status_code == 200
    assert client.delete("/authn/basic/logout").status_code == 200
    assert refused(client.get("/users/alice")) == (401, "UnauthorizedUserError")


def test_version_1_logs_in_by_form_and_by_json(alice):
    client = Pai().client
    address = "/rest-server/api/v1/token"
    kind = "application/x-www-form-urlencoded"
    assert client.generic("POST", address, FORM, content_type=kind).json()["user"] == "alice"
    body = {"username": "alice", "password": PASSWORD}
    token = client.post(address, body, format="json").json()["token"]
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert len(client.get(address).json()["tokens"]) == 2


def test_only_the_login_of_version_1_needs_no_token(alice):
    for method in ("get", "head", "options"):
        answer = getattr(Pai().client, method)("/rest-server/api/v1/token")
        assert answer.status_code == 401, method


def test_a_wrong_password_and_an_unknown_user_look_the_same(alice):
    for body in ({"username": "alice", "password": "x"}, {"username": "eve", "password": "x"}):
        answer = Pai().post("/authn/basic/login", body)
        assert refused(answer) == (400, "IncorrectPasswordError")
    assert refused(Pai().post("/authn/basic/login", {})) == (400, "InvalidParametersError")


def test_clients_that_log_in_for_every_run_use_up_no_tokens(alice):
    mine = Pai(alice)
    for _ in range(LOGIN_TOKENS + 5):
        token = Pai().post("/authn/basic/login", FORM, "form").json()["token"]
    assert ApiToken.objects.filter(user=alice).count() == LOGIN_TOKENS + 1
    client = Pai()
    client.client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert client.get("/tokens/check").json()["username"] == "alice"
    assert mine.get("/tokens").status_code == 200


def test_an_application_token_does_jobs_and_ends_with_the_token_that_made_it(alice, vc):
    mine = Pai(alice)
    made = mine.post("/tokens/application", {}).json()
    assert made["application"] is True
    row = ApiToken.objects.get(user=alice, scope="submit")
    assert row.expiry <= ApiToken.objects.get(user=alice, scope="admin").expiry
    application = Pai()
    application.client.credentials(HTTP_AUTHORIZATION=f"Bearer {made['token']}")
    assert application.get("/jobs").json() == []
    assert application.get("/tokens/check").json()["application"] is True
    assert refused(application.post("/tokens/application", {})) == (403, "ForbiddenUserError")
    assert refused(application.put("/users/me", {"data": {}})) == (403, "ForbiddenUserError")
    assert str(row.public_id) in mine.get("/tokens").json()["tokens"]
    assert mine.delete(f"/tokens/{made['token']}").status_code == 200
    assert refused(application.get("/jobs")) == (401, "UnauthorizedUserError")
    other = Pai(make_user("bob"))
    assert refused(mine.delete(f"/tokens/{other.token}")) == (403, "ForbiddenUserError")


def test_application_tokens_are_listed_until_they_are_revoked_by_what_is_listed(alice):
    mine = Pai(alice)
    before = set(mine.get("/tokens").json()["tokens"])
    made = mine.post("/tokens/application", {}).json()["token"]
    (listed,) = set(mine.get("/tokens").json()["tokens"]) - before
    assert listed not in made  # what is listed is no credential
    application = Pai()
    application.client.credentials(HTTP_AUTHORIZATION=f"Bearer {made}")
    assert application.get("/jobs").status_code == 200
    old = mine.client.get("/rest-server/api/v1/token").json()["tokens"]
    assert set(old) == before | {listed}
    assert mine.delete(f"/tokens/{listed}").status_code == 200
    assert set(mine.get("/tokens").json()["tokens"]) == before
    assert refused(application.get("/jobs")) == (401, "UnauthorizedUserError")


def test_a_token_in_an_address_is_not_logged(alice, capsys):
    configure("INFO")
    mine, other = Pai(alice), Pai(make_user("bob"))
    assert mine.delete(f"/tokens/{other.token}").status_code == 403
    logged = capsys.readouterr().err
    assert "/rest-server/api/v2/tokens/skt_***" in logged
    assert other.token[4:] not in logged


def test_users_see_themselves_and_admins_see_all(alice, vc, root):
    mine = Pai(alice)
    assert [user["username"] for user in mine.get("/users").json()] == ["alice"]
    assert mine.get("/users/alice").json()["virtualCluster"] == ["vision"]
    assert refused(mine.get("/users/root")) == (404, "NoUserError")
    assert refused(mine.get("/users/no-one")) == (404, "NoUserError")
    assert {user["username"] for user in root.get("/users").json()} == {"alice", "root"}
    body = {"username": "eve", "password": PASSWORD}
    assert refused(mine.post("/users", body)) == (403, "ForbiddenUserError")


def test_an_admin_makes_changes_and_removes_users(alice, vc, root):
    make_vc("other")
    body = {"username": "bob", "password": PASSWORD, "virtualCluster": ["vision"], "extension": {}}
    assert root.post("/users", body).status_code == 201
    assert root.get("/users/bob").json()["virtualCluster"] == ["vision"]
    assert refused(root.post("/users", body)) == (409, "ConflictUserError")
    change = {"username": "bob", "email": "b@example.org", "virtualCluster": ["other"]}
    assert root.put("/users", {"data": change, "patch": True}).status_code == 201
    bob = root.get("/users/bob").json()
    assert (bob["email"], bob["virtualCluster"]) == ("b@example.org", ["other"])
    for field, value in (("admin", {"admin": True}), ("email", {"email": ""})):
        assert root.put(f"/users/bob/{field}", value).status_code == 201
    assert root.put("/users/bob/virtualcluster", {"virtualCluster": []}).status_code == 201
    assert root.put("/users/bob/extension", {"extension": {"a": 1}}).status_code == 201
    bob = root.get("/users/bob").json()
    assert (bob["admin"], bob["email"], bob["virtualCluster"]) == (True, "", [])
    new = {"newPassword": "another-long-password"}
    assert root.put("/users/bob/password", new).status_code == 201
    assert root.delete("/users/bob").status_code == 200
    assert refused(root.get("/users/bob")) == (404, "NoUserError")
    assert refused(root.delete("/users/root")) == (403, "RemoveAdminError")
    nowhere = {"username": "carol", "password": PASSWORD, "virtualCluster": ["nowhere"]}
    assert root.post("/users", nowhere).status_code == 404
    assert not User.objects.filter(username="carol").exists()


def test_users_change_their_own_password(alice):
    data = {"username": "alice", "oldPassword": "wrong", "newPassword": "another-long-password"}
    mine = Pai(alice)
    assert refused(mine.put("/users/me", {"data": data})) == (400, "IncorrectPasswordError")
    data["oldPassword"] = PASSWORD
    assert mine.put("/users/me", {"data": data, "patch": True}).status_code == 201
    assert refused(mine.get("/users")) == (401, "UnauthorizedUserError")


def test_groups_have_rights_in_virtual_clusters_and_storages(alice, root):
    make_vc("shared")
    storage.create(root.user, "data", "host_path", {"path": "/srv/data"})
    acls = {"admin": False, "virtualClusters": ["shared"], "storageConfigs": ["data"]}
    body = {"groupname": "lab", "description": "x", "extension": {"acls": acls}}
    assert root.post("/groups", body).status_code == 201
    assert refused(root.post("/groups", body))[0] == 409
    assert root.get("/groups/lab").json()["extension"]["acls"] == acls
    assert root.put("/users/alice/group", {"groupname": "lab"}).status_code == 201
    user = root.get("/users/alice").json()
    assert (user["grouplist"], user["virtualCluster"]) == (["lab"], ["shared"])
    assert user["storageConfig"] == ["data"]
    mine = Pai(alice)
    assert [group["groupname"] for group in mine.get("/groups").json()] == ["lab"]
    assert refused(mine.get("/groups/other")) == (404, "NoGroupError")
    assert root.get("/groups/lab/userlist").json() == [{"username": "alice", "clusterAdmin": False}]
    change = {"groupname": "lab", "extension": {"acls": {"virtualClusters": []}}}
    assert root.put("/groups", {"data": change, "patch": True}).status_code == 201
    assert not Membership.objects.filter(user=alice).exists()
    assert root.put("/groups/lab/description", {"description": "y"}).status_code == 201
    assert root.get("/groups/lab").json()["description"] == "y"
    assert root.put("/users/alice/grouplist", {"grouplist": []}).status_code == 201
    assert groups.names_of(alice) == []
    gone = root.delete("/users/alice/group", {"groupname": "lab"})
    assert refused(gone)[0] == 404
    assert root.delete("/groups/lab").status_code == 201
    admins = {"groupname": "chiefs", "extension": {"acls": {"admin": True}}}
    assert refused(root.post("/groups", admins)) == (400, "NotImplementedError")
    assert refused(root.get("/groups/chiefs")) == (404, "NoGroupError")


def test_virtual_clusters_count_what_they_own_and_use(alice, vc, node, root):
    placed(alice, vc, gpus=2, cpu=4, memory_mb=2048)
    mine = Pai(alice)
    make_vc("hidden")
    assert set(mine.get("/virtual-clusters").json()) == {"vision"}
    found = mine.get("/virtual-clusters/vision").json()
    assert (found["resourcesTotal"]["gpu"], found["resourcesUsed"]["gpu"]) == (8, 2)
    assert (found["resourcesUsed"]["cpu"], found["resourcesUsed"]["memory"]) == (4, 2048)
    assert found["resourcesTotal"]["GPUs"] == 8
    assert found["numJobs"] == 1
    bob = make_user("bob")
    Membership.objects.create(vc=vc, user=bob)
    assert Pai(bob).get("/virtual-clusters/vision").json()["numJobs"] == 0
    assert refused(mine.get("/virtual-clusters/hidden")) == (404, "NoVirtualClusterError")
    assert set(root.get("/virtual-clusters").json()) == {"vision", "hidden"}
    answer = root.put("/virtual-clusters/vision", {"vcCapacity": 3})
    assert refused(answer) == (400, "NotImplementedError")
    skus = mine.get("/cluster/sku-types", vc="vision").json()
    assert skus["A100"] == {"gpu": 1, "cpu": 8, "memory": 32768, "gpuModel": "A100"}
    assert mine.get("/virtual-clusters/vision/sku-types").json() == skus


def test_storages_are_listed_and_only_admins_see_where_they_lie(alice, vc, root):
    data = {"server": "nfs.example.org", "path": "/export"}
    made = storage.create(root.user, "team", "nfs", data, default=True, per_user=True)
    storage.grant(root.user, made, "vision")
    storage.create(root.user, "hidden", "host_path", {"path": "/srv/hidden"})
    mine = Pai(alice)
    listed = mine.get("/storages").json()["storages"]
    assert listed == [{"name": "team", "share": False, "volumeName": "team", "default": True}]
    assert mine.get("/storages", default="false").json()["storages"] == []
    one = mine.get("/storages/team").json()
    assert (one["type"], one["data"]["server"]) == ("nfs", "")
    assert root.get("/storages/team").json()["data"] == data
    assert root.get("/storages/hidden").json()["type"] == "other"
    assert refused(mine.get("/storages/hidden")) == (404, "NoStorageError")
    assert mine.get("/storage/config").json()[0]["name"] == "team"
    assert mine.get("/storage/server/team").json()["spn"] == "team"


def test_nodes_and_tasks_look_like_those_of_kubernetes(alice, vc, node, root):
    placed(alice, vc, name="here", gpus=2)
    listed = root.get("/kubernetes/nodes").json()["items"]
    assert listed[0]["status"]["capacity"]["nvidia.com/gpu"] == "8"
    (pod,) = root.get("/kubernetes/pods", namespace="default").json()["items"]
    assert pod["metadata"]["labels"]["jobName"] == "here"
    assert pod["spec"]["nodeName"] == "gpu-1"
    assert root.get("/kubernetes/pods", namespace="kube-system").json()["items"] == []
    for path in ("/kubernetes/nodes", "/kubernetes/pods"):
        assert refused(Pai(alice).get(path)) == (403, "ForbiddenUserError")
    assert Pai(alice).get("/alerts").json() == []
    node.devices.filter(index=0).update(health="BAD", problem="Xid 79")
    (alert,) = Pai(alice).get("/alerts").json()
    assert alert["labels"]["alertname"] == "NvidiaGpuBad"


def test_one_attribute_of_a_group_is_set_by_its_path(alice, root):
    make_vc("shared")
    storage.create(root.user, "data", "host_path", {"path": "/srv/data"})
    root.post("/groups", {"groupname": "lab"})

    def acls():
        return root.get("/groups/lab").json()["extension"]["acls"]

    below = "/groups/lab/extension"
    assert root.put(f"{below}/acls/virtualClusters", {"data": ["shared"]}).status_code == 201
    assert root.put(f"{below}/acls/storageConfigs", {"data": ["data"]}).status_code == 201
    assert acls() == {"admin": False, "virtualClusters": ["shared"], "storageConfigs": ["data"]}
    assert root.put(f"{below}/acls", {"data": {"virtualClusters": []}}).status_code == 201
    assert acls() == {"admin": False, "virtualClusters": [], "storageConfigs": ["data"]}
    kept = root.put(f"{below}/groupType", {"data": "vc"})
    assert (kept.status_code, "not kept" in kept.json()["message"]) == (201, True)
    for path, data in (("acls/virtualClusters", "shared"), ("acls", ["shared"])):
        assert refused(root.put(f"{below}/{path}", {"data": data}))[0] == 400
    assert refused(root.put(f"{below}/acls", {}))[0] == 400
    assert refused(root.put(f"{below}/acls/admin", {"data": True})) == (400, "NotImplementedError")
    missing = root.put("/groups/none/extension/acls", {"data": {}})
    assert refused(missing) == (404, "NoGroupError")
    wrong = root.put(f"{below}/acls/virtualClusters", {"data": ["none"]})
    assert refused(wrong) == (404, "NoVirtualClusterError")


def test_a_script_that_gives_a_group_a_virtual_cluster_by_the_old_words(root):
    make_vc("shared")
    root.post("/groups", {"groupname": "lab"})
    group = root.client.get(f"{ROOT}/group/lab").json()
    group["extension"]["acls"]["virtualClusters"].append("shared")
    changed = root.client.put(f"{ROOT}/group/", {"patch": True, "data": group}, format="json")
    assert changed.status_code == 201
    lab = root.get("/groups/lab").json()
    assert lab["extension"]["acls"]["virtualClusters"] == ["shared"]
    assert root.client.get(f"{ROOT}/user/root").json()["username"] == "root"


def test_oidc_leads_to_the_login_of_skep(alice):
    assert Pai().get("/authn/oidc/login").headers["Location"] == "/login"


def test_a_body_that_is_no_object_is_refused(root):
    for body in ([], "text", {"data": []}):
        answer = root.client.put(f"{ROOT}/users", body, format="json")
        assert refused(answer) == (400, "InvalidParametersError")
