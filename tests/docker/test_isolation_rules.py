"""The agent's own allow-list, without an engine."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.docker_tasks import make_spec

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import (
    EngineFacts,
    ImageFacts,
    NodeFacts,
    check_env,
    check_image,
    check_spec,
    create_call,
)
from skep_agent.protocol import AttemptSpec, ImageSpec, WorkingFiles

REAL = NodeFacts("hive", "node-1", "10.0.0.5")
SIMULATED = NodeFacts("hive", "node-1", simulated_gpus=True)
ENGINE = EngineFacts(cpus=8, init=True)
IMAGE = ImageFacts("sha256:" + "a" * 64)
GPUS = ["GPU-11111111-2222-3333-4444-555555555555", "GPU-99999999-2222-3333-4444-555555555555"]


def spec_with(**fields: Any) -> AttemptSpec:
    command = fields.pop("command", "true")
    return make_spec("registry.example.com:5000/team/image:1", command, **fields)


def body_of(spec: AttemptSpec, node: NodeFacts = REAL, image: ImageFacts = IMAGE) -> dict[str, Any]:
    return create_call(spec, node, ENGINE, image, "network-id").body


def env_of(spec: AttemptSpec, node: NodeFacts = REAL, *image_env: str) -> dict[str, str]:
    body = body_of(spec, node, ImageFacts(IMAGE.image_id, image_env))
    return dict(entry.split("=", 1) for entry in body["Env"])


def test_finding_j3_only_a_task_with_an_ssh_server_may_change_its_root():
    assert "SYS_CHROOT" not in body_of(spec_with())["HostConfig"]["CapAdd"]
    assert "SYS_CHROOT" in body_of(spec_with(ssh_server=True))["HostConfig"]["CapAdd"]


def test_finding_j9_tasks_in_the_nodes_network_know_the_names_of_their_gang_their_own_first():
    hosts = {"worker-0": "10.0.0.5", "worker-1": "10.0.0.5", "ps-0": "10.0.0.6", "x": "no address"}
    spec = spec_with(network="host", hostname="worker-1", hosts=hosts)
    assert body_of(spec)["HostConfig"]["ExtraHosts"] == [
        *("worker-1:10.0.0.5", "worker-0:10.0.0.5", "ps-0:10.0.0.6"),
    ]


@pytest.mark.parametrize("name", ["a b", "evil\n10.0.0.1 x", "", "-a", "a" * 70])
def test_what_is_no_host_name_is_refused(name):
    with pytest.raises(RuntimeFailure, match="not a host name"):
        check_spec(spec_with(network="host", hosts={name: "10.0.0.1"}))


def test_the_whole_host_configuration_of_a_gpu_task():
    """Every key that the engine gets: a new one has to be thought about here."""
    spec = spec_with(gpu_uuids=GPUS, cpus=2.5, memory_mb=1000, shm_mb=100, pids_limit=99)
    assert body_of(spec)["HostConfig"] == {
        "NetworkMode": "network-id",
        "ExtraHosts": [],
        "CapDrop": ["ALL"],
        "CapAdd": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"],
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "Runtime": "runc",
        "DeviceRequests": [
            {
                "Driver": "nvidia",
                "Count": 0,
                "DeviceIDs": GPUS,
                "Capabilities": [["gpu", "compute", "utility"]],
                "Options": {},
            }
        ],
        "NanoCpus": 2_500_000_000,
        "Memory": 1000 * 1024 * 1024,
        "MemorySwap": 1000 * 1024 * 1024,
        "ShmSize": 100 * 1024 * 1024,
        "PidsLimit": 99,
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
        "OomScoreAdj": 500,
        "Init": True,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {
            "Type": "local",
            "Config": {
                "max-size": "1000000g",
                "max-file": "1",
                "compress": "false",
                "mode": "blocking",
            },
        },
    }


FORBIDDEN = {
    "Binds", "Mounts", "VolumesFrom", "VolumeDriver", "Devices", "DeviceCgroupRules", "PidMode",
    "UTSMode", "UsernsMode", "CgroupParent", "Cgroup", "Sysctls", "PortBindings", "Tmpfs",
    "MaskedPaths", "ReadonlyPaths", "OomKillDisable", "Links", "GroupAdd",
    "Privileged", "PublishAllPorts",
}  # fmt: skip


@given(
    text=st.text(max_size=40),
    number=st.integers(-(2**40), 2**40),
    real=st.floats(),
    network=st.sampled_from(["isolated", "job", "host"]),
)
def test_attack_01_02_03_no_spec_whatever_it_says_opens_the_host(text, number, real, network):
    """A compromised control plane sends anything that the wire accepts."""
    raw = {
        **json.loads(spec_with().model_dump_json()),
        "job_name": text, "task_role": text, "hostname": text, "command": text,
        "env": {"A": text}, "memory_mb": number, "shm_mb": number, "pids_limit": number,
        "network": network,
        "privileged": True, "Privileged": True, "binds": ["/:/host"], "cap_add": ["SYS_ADMIN"],
        "devices": ["/dev/mem"], "pid": "host", "runtime": "nvidia", "cgroup_parent": "/",
    }  # fmt: skip
    spec = AttemptSpec.model_validate({**raw, "cpus": real, "stop_grace_s": abs(real)})
    try:
        body = body_of(spec)
    except RuntimeFailure:
        return
    host = body["HostConfig"]
    assert not FORBIDDEN & host.keys()
    assert host["CgroupnsMode"] == host["IpcMode"] == "private"
    assert host["Runtime"] == "runc"
    assert host["NetworkMode"] in ("network-id", "host")
    # For the engine 0 and less mean: without a limit.
    assert min(host["Memory"], host["NanoCpus"], host["PidsLimit"], host["ShmSize"]) > 0
    assert not {"Volumes", "ExposedPorts", "User", "MacAddress"} & body.keys()
    assert not body["NetworkDisabled"]


@pytest.mark.parametrize(
    "fields",
    [
        {"attempt_id": ""},
        {"attempt_id": "a/b"},
        {"attempt_id": "../x"},
        {"attempt_id": "a\nskep.node: other"},
        {"attempt_id": "a" * 64},
        {"job_id": "x\r\n"},
        {"job_id": "a b"},
        {"hostname": "-a"},
        {"hostname": "a.b"},
        {"hostname": "a\n"},
        {"hostname": "a" * 64},
        {"gpu_uuids": ["all"]},
        {"gpu_uuids": ["0"]},
        {"gpu_uuids": ["none"]},
        {"gpu_uuids": ["GPU-1,GPU-2"]},
        {"gpu_uuids": ["GPU-1", "GPU-1"]},
        {"gpu_uuids": ["GPU-1\n"]},
        {"cpus": 0.0},
        {"cpus": -1.0},
        {"cpus": float("nan")},
        {"cpus": float("inf")},
        {"memory_mb": 0},
        {"memory_mb": -1},
        {"shm_mb": 0},
        {"pids_limit": 0},
        {"pids_limit": -1},
        {"pids_limit": 10**6},
        {"disk_mb": -1},
        {"log_bytes": -1},
        {"stop_grace_s": -1.0},
        {"stop_grace_s": float("nan")},
        {"stop_grace_s": 1e9},
        {"checkpoint_grace_s": float("nan")},
        {"checkpoint_signal": "SIGKILL"},
        {"checkpoint_signal": "USR1; reboot"},
        {"command": "a\0b"},
        {"command": "x" * 131072},
        {"env": {"A=B": "1"}},
        {"env": {"": "1"}},
        {"env": {"A\nB": "1"}},
        {"env": {"A": "1\0"}},
        {"env": {"A": "x" * 131072}},
        {"env": {f"A{n}": "x" * 100_000 for n in range(11)}},
    ],
    ids=lambda fields: repr(fields)[:40],
)
def test_a_spec_that_is_not_allowed_is_refused(fields):
    with pytest.raises(RuntimeFailure) as refusal:
        check_spec(spec_with(**fields))
    assert refusal.value.code == "spec_refused"


@pytest.mark.parametrize(
    "reference",
    ["", "-v", "a b", "a:b:c", "/etc/passwd", "a\n", "../a", "a@sha256:12", "a//b", "x" * 513],
)
def test_what_is_no_image_reference_is_refused(reference):
    with pytest.raises(RuntimeFailure) as refusal:
        check_image(ImageSpec(reference=reference))
    assert refusal.value.code == "spec_refused"


@pytest.mark.parametrize(
    "reference",
    [
        "busybox",
        "my_image:1",
        "busybox:1.36",
        "nvcr.io/nvidia/pytorch:24.05-py3",
        "127.0.0.1:5000/a/b_c/d__e:tag",
        "ghcr.io/a/b@sha256:" + "0" * 64,
        "a/b:1@sha256:" + "0" * 64,
    ],
)
def test_image_references_of_every_kind_are_taken(reference):
    check_image(ImageSpec(reference=reference))


@pytest.mark.parametrize("host", ["worker-0", "my_role-12", "_r-0", "A", "9"])
def test_host_names_as_roles_make_them_are_taken(host):
    check_spec(spec_with(hostname=host))


ATTACKS_08 = [
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_IMEX_CHANNELS", "NVIDIA_MOFED", "NVIDIA_GDS",
    "NVIDIA_GDRCOPY", "NVIDIA_NVSWITCH", "NVIDIA_DISABLE_REQUIRE", "NVIDIA_ANYTHING_NEW",
    "DOCKER_RESOURCE_GPU", "DOCKER_RESOURCE_NVIDIA-GPU", "LD_PRELOAD", "LD_LIBRARY_PATH",
    "LD_AUDIT", "SKEP_GPU_UUIDS",
]  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS_08)
def test_attack_07_08_reserved_variables_are_refused_from_users(name):
    with pytest.raises(RuntimeFailure) as refusal:
        check_env({name: "all"})
    assert refusal.value.code == "spec_refused"
    assert name in refusal.value.message


HOSTILE_IMAGE = (
    "PATH=/usr/bin:/bin",
    "NVIDIA_VISIBLE_DEVICES=all",
    "NVIDIA_DRIVER_CAPABILITIES=all",
    "NVIDIA_MIG_CONFIG_DEVICES=all",
    "NVIDIA_MIG_MONITOR_DEVICES=all",
    "NVIDIA_IMEX_CHANNELS=0",
    "NVIDIA_MOFED=enabled",
    "NVIDIA_GDS=enabled",
    "NVIDIA_GDRCOPY=enabled",
    "NVIDIA_NVSWITCH=enabled",
    "DOCKER_RESOURCE_GPU=all",
    "LD_PRELOAD=./proc/self/cwd/poc.so",
    "LD_AUDIT=/x.so",
)


@pytest.mark.parametrize(
    ("node", "uuids", "visible"),
    [(REAL, [], "void"), (REAL, GPUS, ",".join(GPUS)), (SIMULATED, GPUS, "void")],
    ids=["no GPU", "two GPUs", "simulated GPUs"],
)
def test_attack_05_06_08_every_hole_of_an_images_environment_is_closed(node, uuids, visible):
    env = env_of(spec_with(gpu_uuids=uuids), node, *HOSTILE_IMAGE)
    assert env["NVIDIA_VISIBLE_DEVICES"] == visible
    assert env["DOCKER_RESOURCE_GPU"] == visible
    assert env["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    empty = {
        "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_IMEX_CHANNELS",
        "NVIDIA_MOFED", "NVIDIA_GDS", "NVIDIA_GDRCOPY", "NVIDIA_NVSWITCH", "LD_PRELOAD", "LD_AUDIT",
    }  # fmt: skip
    assert {name: env[name] for name in empty} == dict.fromkeys(empty, "")


def test_the_holes_are_closed_also_where_the_image_opens_none():
    assert env_of(spec_with())["LD_PRELOAD"] == ""
    assert env_of(spec_with())["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_a_simulated_node_names_its_gpus_in_the_environment_alone():
    spec = spec_with(gpu_uuids=GPUS)
    env = env_of(spec, SIMULATED)
    assert env["SKEP_GPU_UUIDS"] == env["CUDA_VISIBLE_DEVICES"] == ",".join(GPUS)
    assert body_of(spec, SIMULATED)["HostConfig"]["DeviceRequests"] == []
    assert "CUDA_VISIBLE_DEVICES" not in env_of(spec, REAL)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/usr/local/nvidia/lib:/opt/lib64", "/usr/local/nvidia/lib:/opt/lib64"),
        ("lib:.:/opt/x", "/opt/x"),
        (":/opt/x:", "/opt/x"),
        ("/proc/self/cwd/evil:/opt/x", "/opt/x"),
        ("//proc/self/root:/./proc/1:/dev/fd/3:/sys/x", ""),
        ("/var/run/../proc/self/cwd", ""),
        ("$ORIGIN/lib:/opt/$LIB", ""),
    ],
)  # fmt: skip
def test_attack_05_a_library_path_of_an_image_keeps_only_folders_outside_of_it(given, kept):
    assert env_of(spec_with(), REAL, f"LD_LIBRARY_PATH={given}")["LD_LIBRARY_PATH"] == kept


# As the kernel reads a path: any number of slashes, and "." anywhere.
GAPS = st.lists(st.sampled_from(["/", "//", "/./", "/.//", "///././"]), min_size=8, max_size=8)
CLOSED = ["proc/self/fd/8", "proc", "proc/1/cwd", "sys", "sys/fs/cgroup", "dev/fd/8", "run/skep"]


def spelled(parts: str, gaps: list[str], tail: str) -> str:
    return "".join(gap + part for gap, part in zip(gaps, parts.split("/"), strict=False)) + tail


@given(
    parts=st.sampled_from([*CLOSED, "a/../proc", "run/skep/env"]),
    gaps=GAPS,
    tail=st.sampled_from(["", "/", "/.", "//"]),
)
def test_finding_s21_no_spelling_of_a_closed_folder_is_a_working_directory(parts, gaps, tail):
    """CVE-2024-21626, from the spec, from the image, and as the place of working files."""
    folder = spelled(parts, gaps, tail)
    files = WorkingFiles(sha256="0" * 64, size=1, path=folder)
    for spec, image in (
        (spec_with(work_dir=folder), IMAGE),
        (spec_with(), ImageFacts(IMAGE.image_id, (), folder)),
        (spec_with(working_files=files), IMAGE),
    ):
        with pytest.raises(RuntimeFailure) as refusal:
            body_of(spec, REAL, image)
        assert refusal.value.code == "spec_refused"


@pytest.mark.parametrize(
    "folder", ["/", "/procedures", "/a/proc", "/run/skeptic", "/home/bee/.hidden", "/a b/c"]
)
def test_folders_that_only_look_alike_are_taken(folder):
    assert body_of(spec_with(work_dir=folder))["WorkingDir"] == folder


@pytest.mark.parametrize(
    "reference",
    ["a" * 64, "sha256:" + "a" * 64, "sha256:" + "a" * 12, "sha256", "a" * 64 + ":latest"],
)
def test_finding_s21_an_image_id_is_no_reference(reference):
    with pytest.raises(RuntimeFailure) as refusal:
        check_image(ImageSpec(reference=reference))
    assert refusal.value.code == "spec_refused"


def test_labels_report_all_that_a_new_agent_process_needs():
    spec = spec_with(gpu_uuids=GPUS, epoch=3)
    assert body_of(spec)["Labels"] == {
        "skep.cluster": "hive",
        "skep.node": "node-1",
        "skep.attempt": spec.attempt_id,
        "skep.job": spec.job_id,
        "skep.epoch": "3",
        "skep.gpus": ",".join(GPUS),
        "skep.network": "isolated",
        "skep.gang": "",
        "skep.disk_mb": "0",
        "skep.scratch_mb": "0",
        "skep.log_bytes": "0",
    }


def test_finding_s11_where_the_storage_driver_has_quotas_a_container_gets_one():
    quotas = EngineFacts(cpus=8, init=True, disk_quota=True)
    limited = create_call(spec_with(disk_mb=500), REAL, quotas, IMAGE, "network-id").body
    assert limited["HostConfig"]["StorageOpt"] == {"size": "500m"}
    free = create_call(spec_with(), REAL, quotas, IMAGE, "network-id").body
    assert "StorageOpt" not in free["HostConfig"]
    assert "StorageOpt" not in body_of(spec_with(disk_mb=500))["HostConfig"]


def test_in_the_hosts_network_a_task_finds_its_own_name():
    body = body_of(spec_with(network="host", hostname="worker-1"))
    assert body["HostConfig"]["NetworkMode"] == "host"
    assert body["HostConfig"]["ExtraHosts"] == ["worker-1:10.0.0.5"]
    assert body["HostConfig"]["IpcMode"] == "private"


def test_in_a_jobs_network_a_task_is_known_by_its_host_name():
    body = body_of(spec_with(network="job", hostname="worker-1"))
    endpoint = body["NetworkingConfig"]["EndpointsConfig"]["network-id"]
    assert endpoint == {"Aliases": ["worker-1"]}


def test_a_simulated_node_may_offer_more_cpus_than_the_machine_has():
    assert body_of(spec_with(cpus=64.0))["HostConfig"]["NanoCpus"] == 8 * 10**9


@pytest.mark.parametrize(("path", "shell"), [(os.environ["PATH"], "bash"), ("/nowhere", "sh")])
def test_commands_run_in_bash_where_the_image_has_it(path, shell):
    entrypoint = body_of(spec_with())["Entrypoint"]
    script = 'echo "${BASH_VERSION:+bash}"'
    done = subprocess.run(
        [*entrypoint, script], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip() == "bash") == (shell == "bash")


def test_the_image_is_pinned_and_cannot_bring_its_own_habits():
    body = body_of(spec_with())
    assert body["Image"] == IMAGE.image_id
    assert body["Entrypoint"][:2] == ["/bin/sh", "-c"]
    assert body["StopSignal"] == "SIGTERM"
    assert body["Healthcheck"]["Test"] == ["NONE"]


@pytest.mark.parametrize("asked", [{}, {"nofile": 512}, {"memlock": 1}])
def test_27_a_task_leaves_no_core_dump(asked):
    """It would hold the secrets of the task, and lie on the disk of the node."""
    limits = body_of(spec_with(ulimits=asked))["HostConfig"]["Ulimits"]
    assert [one for one in limits if one["Name"] == "core"] == [
        {"Name": "core", "Soft": 0, "Hard": 0}
    ]
