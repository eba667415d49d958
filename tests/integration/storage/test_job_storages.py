"""Storages of jobs: who may mount what, where, and what a node is asked to mount."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.jobs_world import attempts_of, job_file, tick
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_agent.protocol import StorageMount
from skep_platform.accounts import groups
from skep_platform.accounts.models import Group
from skep_platform.files.models import Archive
from skep_platform.jobs import services as jobs
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import desired_attempts, desired_state
from skep_platform.jobs.models import Job, JobStorage
from skep_platform.storage import queries, services
from skep_platform.storage.models import Storage
from skep_platform.tenancy.models import Membership

pytestmark = pytest.mark.django_db
PLUGINS = "com.microsoft.pai.runtimeplugin"


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


@pytest.fixture
def root():
    return make_user("root", admin=True)


def storage(root: Any, name: str, *vcs: Any, read_only: bool = False, **fields: Any) -> Storage:
    """A host path, granted to these virtual clusters."""
    made = services.create(root, name, "host_path", {"path": f"/srv/{name}"}, **fields)
    for vc in vcs:
        services.grant(root, made, vc.name, read_only=read_only)
    return made


def file_with(vc: Any, *asked: Any, **extras: Any) -> dict[str, Any]:
    file = job_file(vc)
    file["extras"] |= extras or {
        "storages": [{"name": one} if isinstance(one, str) else one for one in asked]
    }
    return file


def submitted(user: Any, file: dict[str, Any]) -> Job:
    return jobs.submit(user, json.dumps(file))


def mounts_of(job: Job) -> list[StorageMount]:
    """What the node of the job's one task is sent."""
    assert str(job.pk) in tick()
    (attempt,) = attempts_of(job)
    (spec,) = [s for s in desired_attempts(attempt.node_id) if s.attempt_id == str(attempt.pk)]
    return spec.mounts


def test_job_mounts_what_was_granted_to_its_virtual_cluster(root, alice, vc, node):
    storage(root, "data", vc)
    storage(root, "home", vc, per_user=True)
    storage(root, "sets", vc, read_only=True)
    job = submitted(alice, file_with(vc, "data", {"name": "home", "mountPath": "/root/home/"},
                                     {"name": "sets", "mountPath": "//datasets//all"}))  # fmt: skip
    assert [(m.path, m.target, m.user_folder, m.read_only) for m in mounts_of(job)] == [
        ("/srv/data", "/mnt/data", "", False),
        ("/srv/home", "/root/home", "alice", False),
        ("/srv/sets", "/datasets/all", "", True),
    ]


def test_nfs_is_sent_with_its_server_and_options(root, alice, vc, node):
    data = {"server": "nfs.example.org", "path": "/x"}
    made = services.create(root, "x", "nfs", data, mount_options=["hard"], read_only=True)
    services.grant(root, made, vc.name)
    (mount,) = mounts_of(submitted(alice, file_with(vc, "x")))
    assert (mount.type, mount.server, mount.options) == ("nfs", "nfs.example.org", ["hard"])
    assert mount.read_only


def test_empty_list_takes_the_default_storages(root, alice, vc, node):
    storage(root, "b", vc, default=True)
    storage(root, "a", vc, default=True)
    storage(root, "c", vc)
    storage(root, "d", make_vc("other"), default=True)
    job = submitted(alice, file_with(vc, storages=[]))
    assert [mount.target for mount in mounts_of(job)] == ["/mnt/a", "/mnt/b"]


def test_job_without_storages_mounts_none(root, alice, vc, node):
    storage(root, "a", vc, default=True)
    assert mounts_of(submitted(alice, job_file(vc))) == []


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"storageConfigNames": ["b", "c", "b"]}, ["/mnt/b", "/mnt/c"]),
        ({"storageConfigNames": []}, ["/mnt/a"]),
        ({}, ["/mnt/a"]),
        (None, ["/mnt/a"]),
    ],
)
def test_plugin_teamwise_storage_mounts_as_openpai_converts_it(
    root, alice, vc, node, parameters, expected
):
    storage(root, "a", vc, default=True)
    storage(root, "b", vc)
    storage(root, "c", vc)
    plugin = {"plugin": "teamwise_storage", "parameters": parameters}
    job = submitted(alice, file_with(vc, **{PLUGINS: [plugin]}))
    assert [mount.target for mount in mounts_of(job)] == expected


def test_19_storage_of_another_virtual_cluster_is_not_found(root, alice, vc):
    storage(root, "secret", make_vc("other"))
    api = Api(alice)
    strange = api.post("/jobs", file_with(vc, "secret"))
    nowhere = api.post("/jobs", file_with(vc, "nowhere"))
    assert refusal(strange) == refusal(nowhere) == (404, "storage_not_found")
    said = strange.json()["message"].replace("secret", "nowhere")
    assert said == nowhere.json()["message"]
    assert not Job.objects.exists()


def test_storage_that_only_another_of_the_users_virtual_clusters_has_is_forbidden(root, alice, vc):
    other = make_vc("other", quotas={"A100": 8}, members=[alice])
    storage(root, "theirs", other)
    answer = Api(alice).post("/jobs", file_with(vc, "theirs"))
    assert refusal(answer) == (403, "storage_forbidden")
    assert "other" in answer.json()["message"]
    assert submitted(alice, file_with(other, "theirs"))


def test_problems_are_shown_at_their_place_in_the_file(root, alice, vc):
    storage(root, "data", vc)
    text = file_with(vc, "data", "nowhere", {"name": "data", "mountPath": "/etc"})
    found = Api(alice).post("/jobs/check", text).json()["errors"]
    assert [(one["code"], one["path"]) for one in found] == [
        ("storage_not_found", "extras.storages[1]"),
        ("storage_path_invalid", "extras.storages[2].mountPath"),
    ]


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/etc", "/proc/self", "/run/skep", "/skep/scratch", "/dev/shm", "/usr/lib", "/var"),
        *("relative", "/mnt/../etc", "/mnt/./x", "/mnt/a b", "/mnt/a,b", "/mnt/a:ro", ""),
        "/mnt/" + "a" * 2000,
    ],
)
def test_02_no_storage_hides_what_is_not_the_jobs(root, alice, vc, path):
    storage(root, "data", vc)
    answer = Api(alice).post("/jobs", file_with(vc, {"name": "data", "mountPath": path}))
    if path == "":
        assert answer.status_code == 201  # as if none was given
        return
    assert refusal(answer) == (400, "storage_path_invalid"), answer.content


@pytest.mark.parametrize("folder", ["/var/run", "/run", "/var/run/../run"])
@pytest.mark.parametrize("device", ["all", "0", "GPU-0a1b"])
def test_09_no_storage_asks_the_nvidia_runtime_for_a_gpu(root, alice, vc, folder, device):
    """With accept-nvidia-visible-devices-as-volume-mounts, a mount there is a request."""
    storage(root, "data", vc)
    path = f"{folder}/nvidia-container-devices/{device}"
    answer = Api(alice).post("/jobs", file_with(vc, {"name": "data", "mountPath": path}))
    assert refusal(answer) == (400, "storage_path_invalid"), answer.content


def test_storages_of_a_job_do_not_overlap(root, alice, vc):
    storage(root, "a", vc)
    storage(root, "b", vc)
    for path in ("/mnt/a", "/mnt/a/b", "/mnt"):
        answer = Api(alice).post("/jobs", file_with(vc, "a", {"name": "b", "mountPath": path}))
        assert refusal(answer) == (400, "storage_path_invalid")
    files = {"archive": "sha256:" + "0" * 64, "path": "/mnt/a/code"}
    file = file_with(vc, "a")
    file["extras"]["skep"] = {"workingFiles": files}
    assert refusal(Api(alice).post("/jobs", file)) == (400, "storage_path_invalid")


def test_31_number_of_storages_is_bounded(root, alice, vc):
    storage(root, "a", vc)
    many = [{"name": "a", "mountPath": f"/m{number}"} for number in range(17)]
    answer = Api(alice).post("/jobs", file_with(vc, *many))
    assert refusal(answer) == (400, "too_many_storages")
    plugin = {
        "plugin": "teamwise_storage",
        "parameters": {"storageConfigNames": [f"s{n}" for n in range(17)]},
    }
    answer = Api(alice).post("/jobs", file_with(vc, **{PLUGINS: [plugin]}))
    assert refusal(answer) == (400, "too_many_storages")


@pytest.mark.parametrize("name", ["..", "."])
def test_02_user_whose_name_is_a_way_up_mounts_no_folder_of_users(root, vc, name):
    user = make_user(name)
    Membership.objects.create(vc=vc, user=user)
    storage(root, "home", vc, per_user=True)
    storage(root, "data", vc)
    assert refusal(Api(user).post("/jobs", file_with(vc, "home"))) == (403, "storage_forbidden")
    assert Api(user).post("/jobs", file_with(vc, "data")).status_code == 201


def refused(job: Job, node: Any) -> str:
    """The code with which the job's only attempt fails when its node is sent its state."""
    assert str(job.pk) in tick()
    (attempt,) = attempts_of(job)
    desired.build_frame(node.pk, desired.SessionState(node.session_epoch))
    attempt.refresh_from_db()
    assert desired_attempts(node.pk) == []
    return str(attempt.error_code)


def test_02_withdrawn_grant_stops_the_start(root, alice, vc, node):
    made = storage(root, "data", vc)
    job = submitted(alice, file_with(vc, "data"))
    services.revoke(root, made, vc.name)
    assert refused(job, node) == "storage_forbidden"


def grant_to_group(root: Any, made: Storage, *users: Any, read_only: bool = False) -> None:
    group = Group.objects.filter(name="research").first() or groups.create(root, "research")
    groups.add_members(None, group, [user.username for user in users])
    services.grant_group(root, made, "research", read_only=read_only)


def test_group_of_its_owner_lets_a_job_mount_in_any_virtual_cluster(root, alice, vc, node):
    bob = make_user("bob")
    Membership.objects.create(vc=vc, user=bob)
    made = storage(root, "data")
    grant_to_group(root, made, alice, read_only=True)
    answer = Api(bob).post("/jobs", file_with(vc, "data"))
    assert refusal(answer) == (404, "storage_not_found")
    (mount,) = mounts_of(submitted(alice, file_with(vc, "data")))
    assert (mount.path, mount.read_only) == ("/srv/data", True)


@pytest.mark.parametrize(("by_vc", "by_group"), [(True, False), (False, True)])
def test_widest_of_several_grants_holds(root, alice, vc, node, by_vc, by_group):
    made = storage(root, "data", vc, read_only=by_vc)
    grant_to_group(root, made, alice, read_only=by_group)
    (mount,) = mounts_of(submitted(alice, file_with(vc, "data")))
    assert not mount.read_only
    assert queries.usable(alice, "data") == (made, True)


def test_02_owner_who_left_the_group_starts_no_job_with_its_storage(root, alice, vc, node):
    bob = make_user("bob")
    made = storage(root, "data")
    grant_to_group(root, made, alice, bob)
    job = submitted(alice, file_with(vc, "data"))
    groups.remove_member(root, Group.objects.get(), "alice")
    assert refused(job, node) == "storage_forbidden"


def test_storage_that_was_deleted_and_made_again_is_another_one(root, alice, vc, node):
    made = storage(root, "data", vc)
    job = submitted(alice, file_with(vc, "data"))
    services.delete(root, made)
    storage(root, "data", vc)
    assert refused(job, node) == "storage_not_found"


def test_grant_that_became_read_only_holds_at_the_start(root, alice, vc, node):
    made = storage(root, "data", vc)
    job = submitted(alice, file_with(vc, "data"))
    services.grant(root, made, vc.name, read_only=True)
    (mount,) = mounts_of(job)
    assert mount.read_only


def test_container_that_runs_is_not_stopped_by_a_withdrawn_grant(
    root, alice, vc, node, monkeypatch
):
    made = storage(root, "data", vc)
    job = submitted(alice, file_with(vc, "data"))
    assert str(job.pk) in tick()
    desired.build_frame(node.pk, desired.SessionState(node.session_epoch))
    services.revoke(root, made, vc.name)
    monkeypatch.setattr(desired, "_known", desired._Known())  # as after a restart
    state = desired_state(node.pk)
    assert (len(state.attempts), state.refused) == (1, {})


def test_clone_mounts_what_is_granted_now(root, alice, vc):
    made = storage(root, "data", vc)
    job = submitted(alice, file_with(vc, "data"))
    again = jobs.clone(alice, job.pk)
    assert JobStorage.objects.get(job=again).storage == made
    services.revoke(root, made, vc.name)
    assert refusal(Api(alice).post(f"/jobs/{job.pk}/clone", {})) == (404, "storage_not_found")


def test_job_that_does_without_a_storage_has_the_others(root, alice, vc):
    storage(root, "data", vc)
    file = file_with(vc, "data", "nowhere")
    file["extras"]["skep"] = {"ignoreStorages": True}
    job = submitted(alice, file)
    assert [row.name for row in job.storages.all()] == ["data"]


def test_tasks_of_a_gang_share_what_they_mount(
    root, alice, vc, node, django_assert_max_num_queries
):
    """One list for all of them, however many; and no query for each."""
    make_node("gpu-2", gpus=8)
    storage(root, "data", vc)
    job = submitted(alice, file_with(vc, "data") | {"taskRoles": job_file(
        vc, roles={"worker": {"instances": 8}})["taskRoles"]})  # fmt: skip
    assert str(job.pk) in tick()
    node_id = attempts_of(job)[0].node_id
    with django_assert_max_num_queries(12):
        state = desired_state(node_id)
    assert all(spec.mounts == [] for spec in state.attempts)
    assert [len(shared.mounts) for shared in state.shared.values()] == [1]


def spec_of(job: Job) -> Any:
    assert str(job.pk) in tick()
    (attempt,) = attempts_of(job)
    (spec,) = [s for s in desired_attempts(attempt.node_id) if s.attempt_id == str(attempt.pk)]
    return spec


def with_skep(vc: Any, **skep: Any) -> dict[str, Any]:
    file = job_file(vc)
    file["extras"]["skep"] = skep
    return file


def test_home_of_the_owner_is_mounted_in_a_job_that_asks_for_nothing(root, alice, vc, node):
    data = {"server": "nfs.example.org", "path": "/home"}
    made = services.create(
        root, "homes", "nfs", data, mount_options=["hard"], per_user=True, home=True
    )
    services.grant(root, made, vc.name)
    spec = spec_of(submitted(alice, job_file(vc)))
    assert [m.model_dump() for m in spec.mounts] == [
        StorageMount(
            type="nfs",
            server="nfs.example.org",
            path="/home",
            options=["hard"],
            user_folder="alice",
            target="/home/alice",
        ).model_dump()
    ]
    assert spec.env["HOME"] == "/home/alice"


@pytest.mark.parametrize(
    "skep",
    [
        {"home": False},
        {"workingFiles": {"path": "/home/alice/code", "archive": "sha256:" + "0" * 64}},
    ],
)
def test_job_does_without_its_home(root, alice, vc, node, skep):
    storage(root, "homes", vc, per_user=True, home=True)
    if "workingFiles" in skep:
        Archive.objects.create(owner=alice, sha256="0" * 64, size=1, unpacked_size=1, files=1)
    spec = spec_of(submitted(alice, with_skep(vc, **skep)))
    assert (spec.mounts, "HOME" in spec.env) == ([], False)


def test_what_the_job_file_says_goes_before_the_home(root, alice, vc, node):
    storage(root, "homes", vc, per_user=True, home=True)
    storage(root, "data", vc)
    file = file_with(vc, {"name": "data", "mountPath": "/home/alice/data"})
    assert [mount.target for mount in mounts_of(submitted(alice, file))] == ["/home/alice/data"]


def test_own_home_variable_of_a_job_stays(root, alice, vc, node):
    storage(root, "homes", vc, per_user=True, home=True)
    spec = spec_of(submitted(alice, with_skep(vc, environment={"HOME": "/root"})))
    assert (spec.env["HOME"], len(spec.mounts)) == ("/root", 1)


@pytest.mark.parametrize("by_vc", [True, False])
@pytest.mark.parametrize("by_group", [True, False])
@pytest.mark.parametrize("of_all", [True, False])
def test_widest_grant_of_a_home_holds(root, alice, vc, node, by_vc, by_group, of_all):
    homes = storage(root, "homes", vc, read_only=by_vc, per_user=True, home=True)
    grant_to_group(root, homes, alice, read_only=by_group)
    services.update(root, homes, read_only=of_all)
    others = make_vc("other")
    services.grant(root, homes, others.name, read_only=False)  # says nothing here
    (mount,) = mounts_of(submitted(alice, job_file(vc)))
    assert mount.read_only == (of_all or (by_vc and by_group))


def test_home_follows_its_user_by_a_group_and_goes_with_the_grant(root, alice, vc, node):
    homes = storage(root, "homes", per_user=True, home=True)
    others = storage(root, "others", make_vc("other"), per_user=True, home=True)
    grant_to_group(root, homes, alice, read_only=True)
    (mount,) = mounts_of(submitted(alice, job_file(vc)))
    assert (mount.path, mount.read_only) == ("/srv/homes", True)
    services.grant(root, others, vc.name)
    (mount,) = mounts_of(submitted(alice, job_file(vc)))
    assert mount.path == "/srv/others"
    services.revoke(root, others, vc.name)
    groups.remove_member(root, Group.objects.get(), "alice")
    assert mounts_of(submitted(alice, job_file(vc))) == []
