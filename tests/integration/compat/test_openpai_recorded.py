"""`skep migrate` against the answers of a real OpenPAI: its shapes, not those of our own facade.

They follow `openpai_swagger.yaml` and what the rest-server of release 1.8 sends beside it: fields
without a value are null or left out, extensions hold what its web portal keeps there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import respx
from tests.integration.cells.test_hived import FILE
from tests.integration.compat.test_openpai_migration import root, skep
from tests.support.platform_factories import make_node

from skep_platform.accounts import groups
from skep_platform.accounts.models import Group, User
from skep_platform.storage.models import Storage, StorageGrant
from skep_platform.tenancy.models import Membership, VcCell, VirtualCluster

__all__ = ["root"]  # a fixture
pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]

USERS = 1_100  # two imports
RESOURCES = {"cpu": 10, "vCores": 10, "memory": 20_480, "gpu": 8, "GPUs": 8}


def virtual_cluster() -> dict[str, Any]:
    return {
        "capacity": 0.4,
        "usedCapacity": 0,
        "maxCapacity": 0.4,
        "numJobs": 0,
        "dedicated": 0,
        "resourcesUsed": RESOURCES,
        "resourcesGuaranteed": RESOURCES,
        "resourcesTotal": RESOURCES,
        "status": "RUNNING",
        "resourcesShared": RESOURCES,
    }


def group(name: str, **acls: Any) -> dict[str, Any]:
    kept = {"groupType": "vc", "acls": {"admin": False, "virtualClusters": [name], **acls}}
    return {
        "groupname": name,
        "description": None,
        "externalName": "",
        "extension": kept if name != "bare" else {},
    }


def user(number: int) -> dict[str, Any]:
    """The portal keeps keys and settings of a user in `extension`."""
    in_groups = ["default", *(["vision"] if number % 3 == 0 else [])]
    return {
        "username": f"user{number:04}",
        "grouplist": [*in_groups, *(["admingroup"] if number == 1 else [])],
        "email": f"user{number:04}@example.org" if number % 2 else None,
        "extension": {"sshKeys": [{"title": "a", "value": "ssh-rsa AAAA"}], "virtualCluster": []},
        "virtualCluster": ["default", *(["vision"] if number % 3 == 0 else [])],
        "storageConfig": ["confignfs"],
        "admin": number == 1,
    }


STORAGES: dict[str, dict[str, Any]] = {
    "confignfs": {
        "type": "nfs",
        "data": {"server": "10.0.0.1", "path": "/mnt/share"},
        "secretName": None,
        "mountOptions": ["vers=4.1"],
        "readOnly": False,
        "share": True,
        "volumeName": "confignfs-pvc",
    },
    "blob": {
        "type": "azureBlob",
        "data": {"containerName": "c"},
        "secretName": "blob-secret",
        "mountOptions": None,
        "volumeName": "blob-pvc",
        "share": False,
    },
    "strange": {"type": "unknown", "data": {}, "volumeName": "x"},
}


@pytest.fixture
def pai() -> Iterator[Any]:
    listed = [
        {"name": name, "share": False, "volumeName": name, "default": name == "confignfs"}
        for name in STORAGES
    ]
    rights = {"virtualClusters": ["default", "vision"], "storageConfigs": ["confignfs", "blob"]}
    answers: dict[str, Any] = {
        "virtual-clusters": {"default": virtual_cluster(), "vision": virtual_cluster()},
        "groups": [
            group("default", storageConfigs=["confignfs"]),
            group("vision", storageConfigs=["confignfs", "blob"]),
            {**group("admingroup"), "extension": {"acls": {"admin": True, **rights}}},
            group("bare"),
        ],
        "users": [user(number) for number in range(1, USERS + 1)],
        "storages": {"storages": listed},
        **{f"storages/{name}": {"name": name, **one} for name, one in STORAGES.items()},
        "jobs": [{"username": "user0001", "name": "train_1", "state": "SUCCEEDED"}],
    }
    with respx.mock(assert_all_called=False, assert_all_mocked=False) as router:
        for path, answer in answers.items():
            router.get(f"http://old.test/rest-server/api/v2/{path}").respond(json=answer)
        config = router.get(path__regex="/jobs/user0001~train_1/config$")
        config.respond(text="protocolVersion: 2\n", headers={"content-type": "text/yaml"})
        yield router


def test_a_cluster_of_thousands_of_users_moves_with_its_cells(root, pai, tmp_path):
    for name in ("n1", "n2"):
        make_node(name, gpus=8)
    plan, hived = tmp_path / "plan.json", tmp_path / "hivedscheduler.yaml"
    inside = "\n".join(f"      {line}" for line in FILE.strip().splitlines())
    hived.write_text(f"rest-server: {{}}\nhivedscheduler:\n  config: |\n{inside}\n")
    source = ("--server", "http://old.test", "--plan", plan, "--hived", hived)
    done = skep("migrate", "openpai", *source, "--jobs", tmp_path / "jobs")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "jobs" / "user0001~train_1.yaml").read_text() == "protocolVersion: 2\n"
    made = json.loads(plan.read_text())
    assert made["hived"] == FILE.lstrip()
    assert "ssh-rsa" not in plan.read_text()  # what the portal keeps stays there
    for word in ("blob is of type azureBlob", "strange is of type unknown", "admingroup makes"):
        assert word in " ".join(made["notes"])

    shown = skep("migrate", "apply", "--dry-run", plan)
    assert "lay out the cells" in shown.output
    assert User.objects.count() == 1
    done = skep("migrate", "apply", "--json", plan)
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["reset_urls"]) == USERS

    assert User.objects.count() == USERS + 1
    assert set(VirtualCluster.objects.values_list("name", flat=True)) == {"default", "vision"}
    assert groups.names_of(User.objects.get(username="user0003")) == ["default", "vision"]
    assert User.objects.get(username="user0001").is_admin
    assert Membership.objects.filter(vc__name="vision", role="member").count() == USERS // 3 + 1
    assert Group.objects.count() == 4
    made_storage = Storage.objects.get()
    assert made_storage.data == {"server": "10.0.0.1", "path": "/mnt/share"}
    assert StorageGrant.objects.filter(storage=made_storage).count() == 3
    assert VcCell.objects.get(vc__name="vision").number == 2
    assert "Nothing is left to do" in skep("migrate", "apply", plan).output


def test_a_configuration_that_does_not_fit_is_named_and_the_rest_is_done(root, pai, tmp_path):
    plan, hived = tmp_path / "plan.json", tmp_path / "hivedscheduler.yaml"
    hived.write_text("physicalCluster: {cellTypes: {}, physicalCells: 3}\n")
    source = ("--server", "http://old.test", "--plan", plan, "--hived", hived)
    assert skep("migrate", "openpai", *source).exit_code == 0
    content = json.loads(plan.read_text())
    content["users"] = content["users"][:2]
    plan.write_text(json.dumps(content))
    done = skep("migrate", "apply", "--json", plan)
    assert done.exit_code == 1
    (failed,) = json.loads(done.stdout)["failed"]
    assert "physicalCells" in failed
    assert User.objects.filter(username="user0002").exists()
