"""From an attempt to the exact container that may run it, and nothing more.

Pure. This is the agent's own allow-list: the body of the engine's create call is built here (with
the Docker SDK's types, which know its format) from checked values alone, so that not even a
compromised control plane can ask for a privileged container, a host mount, another namespace or a
device. Whatever is not allowed raises RuntimeFailure "spec_refused".
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skep_agent import image_patterns
from skep_agent.accelerators.base import ContainerDevices, nvidia_devices
from skep_agent.containers import RuntimeFailure, require
from skep_agent.isolation.env import check_env, container_env
from skep_agent.isolation.files import check_files, check_folder, command_is_secret, sourced_command
from skep_agent.isolation.mounts import check_mounts, mount_point, scratch_point
from skep_agent.network.plan import Plan, plan_of
from skep_agent.protocol import (
    CHECKPOINT_SIGNALS,
    SCRATCH_DIR,
    ULIMITS,
    AttemptSpec,
    ImageSpec,
)
from skep_limits import (
    MAX_ARGUMENT_BYTES,
    MAX_GRACE_S,
    MAX_OPEN_FILES,
    MAX_SCRATCH_MB,
    is_image_reference,
)

if TYPE_CHECKING:
    from docker.types import DeviceRequest, HostConfig, Mount

__all__ = [
    "CAPABILITIES",
    "CreateCall",
    "EngineFacts",
    "ImageFacts",
    "NodeFacts",
    "check_contents",
    "check_env",
    "check_image",
    "check_spec",
    "create_call",
    "labels",
]

MIB = 1024 * 1024
# What `apt install`, `su` and a package's own user need inside a container. Left out of Docker's
# default set: NET_RAW (forged ARP on a shared bridge), MKNOD (device nodes), NET_BIND_SERVICE (low
# ports of the host's network), SETFCAP, SETPCAP, SYS_CHROOT, AUDIT_WRITE.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
# For tasks with an ssh server alone. A changed root leads nowhere: the container has a mount
# namespace of its own, whose root is the image's (pivot_root), and under no-new-privileges no
# set-user-id program can be fooled by files of a root that it did not expect. Debian's sshd ends
# each session with a terminal that it may not write of to the kernel's audit log (AUDIT_WRITE):
# messages of user space there are not to be trusted. Docker grants both by default.
SSH_CAPABILITIES = ("AUDIT_WRITE", "SYS_CHROOT")
# RDMA pins the memory that it transfers. What is locked counts against the memory of the task.
RDMA_CAPABILITIES = ("IPC_LOCK",)
_RDMA_DEVICE = re.compile(r"/dev/infiniband/(uverbs[0-9]{1,4}|rdma_cm)")
UNLIMITED = -1
ENTRYPOINT_FUNCTION = "skep_entrypoint"
_HAS_ARGUMENTS = re.compile(rf"{ENTRYPOINT_FUNCTION}[ \t]+[^\s;&|)]")
MAX_PIDS = 65536
MAX_HOSTS = 10_000
# The engine refuses less.
MIN_MEMORY_MB = 6

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,62}")
_HOSTNAME = re.compile(r"[0-9A-Za-z_]([0-9A-Za-z_-]{0,61}[0-9A-Za-z])?")
# A render node is one GPU; /dev/dri/cardN could set its display modes, and is never given.
_GPU_DEVICE = re.compile(r"/dev/kfd|/dev/dri/renderD\d{1,4}")
_GPU = re.compile(r"(GPU|MIG)-[0-9A-Za-z][0-9A-Za-z-]{0,60}")
_IMAGE_ID = re.compile(r"[0-9a-f]{64}")
# A task's whole process group is asked to stop, but a shell dies of SIGTERM at once, and with it
# the container: with a trap it first lets its foreground child end in its own time. On the first
# line of the script, so that the shell's messages keep their line numbers.
_WAIT_FOR_CHILD = "trap 'exit 143' TERM; "
# People write commands for bash, as OpenPAI ran them; images without it have a plain shell.
_SHELL = ["/bin/sh", "-c", 'exec "$(command -v bash || echo /bin/sh)" -c "$0"']


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Who starts the container. `address` is where tasks of other nodes reach this one."""

    cluster: str
    name: str
    address: str = "127.0.0.1"
    # No driver, no NVIDIA hook: GPUs are only named in the environment.
    simulated_gpus: bool = False
    # What a container with these GPUs is given; NVIDIA's device request without another probe.
    gpu_devices: Callable[[Sequence[str]], ContainerDevices] = nvidia_devices
    rdma_devices: tuple[str, ...] = ()  # InfiniBand, as the agent found them
    # The network interface that has the address; "" where none is known to have it.
    interface: str = ""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    cpus: int
    init: bool  # docker-init is installed
    api: str = "1.41"  # the version of its API that is spoken
    disk_quota: bool = False  # its storage driver limits what a container writes
    scratch_image: bool = False  # the task's scratch is a file that the agent mounts


@dataclass(frozen=True, slots=True)
class ImageFacts:
    image_id: str
    env: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""  # as in the image's USER: a name or a number, and a group
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateCall:
    name: str
    body: dict[str, Any]


def create_call(
    spec: AttemptSpec, node: NodeFacts, engine: EngineFacts, image: ImageFacts, network: str
) -> CreateCall:
    """The engine's create call for a spec; `network` is the id of the bridge it was given, and is
    ignored in mode "host". Raises RuntimeFailure "spec_refused"."""
    check_spec(spec)
    if not spec.work_dir:
        _check_working_dir(image)
    network = "host" if spec.network == "host" else network
    env = container_env(
        spec, image.env, simulated_gpus=node.simulated_gpus, interface=_interface(spec, node)
    )
    if spec.gpu_uuids and not node.simulated_gpus and not _gpu_devices(spec, node).nvidia_uuids:
        env["NVIDIA_VISIBLE_DEVICES"] = "void"  # they are another vendor's
    # Imported late: the core checks specs without an engine, too.
    from docker.types import ContainerConfig, EndpointConfig, Healthcheck, NetworkingConfig

    networking, plan = None, None
    if spec.network == "gang":
        plan = plan_of(spec, node.name)
    if spec.network in ("job", "gang"):
        endpoint = EndpointConfig(
            engine.api,
            aliases=[_hostname(spec)],
            ipv4_address=plan.task if plan else None,
            mac_address=plan.mac if plan else None,
        )
        networking = NetworkingConfig({network: endpoint})  # type: ignore[arg-type]
    body = ContainerConfig(
        engine.api,
        # By id: the tag may have moved since the image was looked at.
        image=image.image_id,
        command=[_within_exec(_entrypoint(spec, image) + _script(spec))],
        hostname=_hostname(spec),
        detach=True,
        # Engines before API 1.44 look for it here, later ones in the endpoint.
        mac_address=plan.mac if plan else None,
        environment=[f"{name}={value}" for name, value in env.items()],
        entrypoint=_SHELL,
        working_dir=spec.work_dir or None,
        labels=labels(spec, node),
        # An image may say SIGKILL here, or run commands of its own every second.
        stop_signal="SIGTERM",
        healthcheck=Healthcheck(test=["NONE"]),
        host_config=_host_config(spec, node, engine, network, plan),
        networking_config=networking,
    )
    # What is not said is not sent.
    return CreateCall(f"skep-{spec.attempt_id}", {k: v for k, v in body.items() if v is not None})


def labels(spec: AttemptSpec, node: NodeFacts) -> dict[str, str]:
    """All that is needed to re-adopt the container after an agent restart. Every label is always
    set: an image could carry one of its own."""
    return {
        "skep.cluster": node.cluster,
        "skep.node": node.name,
        "skep.attempt": spec.attempt_id,
        "skep.job": spec.job_id,
        "skep.epoch": str(spec.epoch),
        "skep.gpus": ",".join(spec.gpu_uuids),
        "skep.network": spec.network,
        "skep.gang": str(spec.gang.vni) if spec.gang and spec.network == "gang" else "",
        "skep.disk_mb": str(spec.disk_mb),
        "skep.scratch_mb": str(spec.scratch_mb),
        "skep.log_bytes": str(spec.log_bytes),
    }


def scratch_volume(spec: AttemptSpec, node: NodeFacts) -> str:
    """Return the name of the volume that holds a task's scratch on this node."""
    words = "\0".join(scratch_labels(spec, node).values())
    return f"skep-scratch-{hashlib.sha256(words.encode()).hexdigest()[:32]}"


def scratch_labels(spec: AttemptSpec, node: NodeFacts) -> dict[str, str]:
    """Return the labels that identify the volume of a task's scratch."""
    return {
        "skep.cluster": node.cluster,
        "skep.node": node.name,
        "skep.job": spec.job_id,
        "skep.scratch": f"{spec.task_role}/{spec.task_index}",
    }


def check_spec(spec: AttemptSpec) -> None:
    """Raises RuntimeFailure "spec_refused" with the first thing that is not allowed."""
    check_image(spec.image)
    check_contents(spec)
    for name, value in (("attempt id", spec.attempt_id), ("job id", spec.job_id)):
        require(_ID.fullmatch(value), f"{value[:80]!r} is not a valid {name}")
    require(_HOSTNAME.fullmatch(_hostname(spec)), f"{spec.hostname[:80]!r} is not a host name")
    for uuid in spec.gpu_uuids:
        # Never an index or "all": only a UUID names a GPU.
        require(_GPU.fullmatch(uuid), f"{uuid[:80]!r} is not the UUID of a GPU")
    require(len(set(spec.gpu_uuids)) == len(spec.gpu_uuids), "a GPU is listed twice")
    require(len(spec.hosts) <= MAX_HOSTS, f"{len(spec.hosts)} host names, at most {MAX_HOSTS}")
    for name in spec.hosts:
        require(_HOSTNAME.fullmatch(name), f"{name[:80]!r} is not a host name")
    _check_sizes(spec)
    _check_ulimits(spec)


def check_contents(spec: AttemptSpec) -> None:
    """Check the environment, the files, the storages, and the image by the rules of its virtual
    cluster. Raises RuntimeFailure "spec_refused"."""
    refusal = image_patterns.refusal(spec.image_patterns, spec.latest_images, spec.image.reference)
    require(not refusal, refusal)
    check_env({**spec.env, **spec.secret_env})
    check_files(spec)
    check_mounts(spec)


def check_image(image: ImageSpec) -> None:
    """Raises RuntimeFailure "spec_refused" when the reference is none."""
    reference = image.reference
    ok = is_image_reference(reference)
    require(ok, f"{reference[:80]!r} is not an image reference")
    # The engine takes these for the id of any image that it holds, whoever pulled that.
    name = reference.partition("@")[0].partition(":")[0]
    is_id = name == "sha256" or _IMAGE_ID.fullmatch(name)
    require(not is_id, f"{reference[:80]!r} is an image's id: give its name and tag or digest")


def _check_sizes(spec: AttemptSpec) -> None:
    require(0 <= spec.scratch_mb <= MAX_SCRATCH_MB, f"{spec.scratch_mb} MB of scratch")
    # For the engine 0 means "without a limit".
    require(math.isfinite(spec.cpus) and spec.cpus >= 0.01, f"{spec.cpus:g} CPUs")
    enough = spec.memory_mb >= MIN_MEMORY_MB
    require(enough, f"{spec.memory_mb} MB of memory, at least {MIN_MEMORY_MB}")
    require(spec.shm_mb >= 1, f"{spec.shm_mb} MB of shared memory, at least 1")
    require(1 <= spec.pids_limit <= MAX_PIDS, f"{spec.pids_limit} processes, 1 to {MAX_PIDS}")
    for limit in (spec.disk_mb, spec.log_bytes):
        require(0 <= limit <= 2**63, f"{limit} as a limit of disk or log")
    for grace in (spec.stop_grace_s, spec.checkpoint_grace_s):
        require(0 <= grace <= MAX_GRACE_S, f"{grace:g} s of grace")
    signal = spec.checkpoint_signal
    require(not signal or signal in CHECKPOINT_SIGNALS, f"{signal[:20]!r} as checkpoint signal")
    require("\0" not in spec.command, "the command holds a NUL byte")
    _within_exec(_script(spec))


def _within_exec(script: str) -> str:
    size = len(script.encode())
    require(
        size <= MAX_ARGUMENT_BYTES, f"the command has {size} bytes, at most {MAX_ARGUMENT_BYTES}"
    )
    return script


def _entrypoint(spec: AttemptSpec, image: ImageFacts) -> str:
    """Return the shell function by which a command runs what the image would: its ENTRYPOINT with
    these arguments, or with its CMD where there are none. "" for a command without it. Raises
    RuntimeFailure "spec_refused" for an image that has neither."""
    if ENTRYPOINT_FUNCTION not in spec.command:
        return ""
    require(
        image.entrypoint or image.cmd or _HAS_ARGUMENTS.search(spec.command),
        "its image has neither ENTRYPOINT nor CMD",
    )
    cmd = f"[ $# -gt 0 ] || set -- {shlex.join(image.cmd)}; " if image.cmd else ""
    return f'{ENTRYPOINT_FUNCTION}() {{ {cmd}{shlex.join(image.entrypoint)} "$@"; }}; '


def _script(spec: AttemptSpec) -> str:
    return _WAIT_FOR_CHILD + (sourced_command(spec) if command_is_secret(spec) else spec.command)


def _check_working_dir(image: ImageFacts) -> None:
    if image.working_dir:
        check_folder(image.working_dir, "WORKDIR of the image")


def _host_config(
    spec: AttemptSpec, node: NodeFacts, engine: EngineFacts, network: str, plan: Plan | None
) -> HostConfig:
    """All that the engine gets; what the type leaves out when it is false (Privileged,
    PublishAllPorts, devices, binds) is false for the engine."""
    from docker.types import HostConfig, LogConfig, Ulimit

    memory = spec.memory_mb * MIB
    gpus = _gpu_devices(spec, node)
    return HostConfig(
        engine.api,
        network_mode=network,
        extra_hosts=_extra_hosts(spec, node, plan),
        cap_drop=["ALL"],
        cap_add=_capabilities(spec),
        devices=_devices(spec, node, gpus),
        security_opt=["no-new-privileges"],
        ipc_mode="private",
        # Also on cgroup v1, where the engine's own default is the host's.
        cgroupns="private",
        # Always runc: where the daemon's default runtime is NVIDIA's, it would act on what an
        # image says. Leased GPUs come by the device request alone.
        runtime="runc",
        device_requests=_device_requests(gpus.nvidia_uuids),
        # A simulated node may offer more CPUs than the machine has.
        nano_cpus=int(min(spec.cpus, engine.cpus) * 1e9),
        mem_limit=memory,
        memswap_limit=memory,  # the sum of both: no swap
        shm_size=spec.shm_mb * MIB,
        pids_limit=spec.pids_limit,
        # A core dump would leave a task's secrets on the disk.
        ulimits=[Ulimit(name=n, soft=v, hard=v) for n, v in _ulimits(spec).items()],
        # When the node itself runs out of memory, tasks die before the agent and the engine.
        oom_score_adj=500,
        storage_opt=_storage_opt(spec, engine),
        mounts=_mounts(spec, node, engine),
        init=engine.init,
        restart_policy={"Name": "no"},
        # Without rotation: a reader resumes by its offset from the first byte. "local" and not
        # "json-file", which replaces every byte that is not UTF-8 (and cuts a character in two at
        # 16 KiB). All options are given: what is left out comes from the daemon's configuration.
        log_config=LogConfig(
            type="local",
            config={
                "max-size": "1000000g",
                "max-file": "1",
                "compress": "false",
                "mode": "blocking",
            },
        ),
    )


def _storage_opt(spec: AttemptSpec, engine: EngineFacts) -> dict[str, str] | None:
    return {"size": f"{spec.disk_mb}m"} if spec.disk_mb and engine.disk_quota else None


def _capabilities(spec: AttemptSpec) -> list[str]:
    ssh = SSH_CAPABILITIES if spec.ssh_server else ()
    rdma = RDMA_CAPABILITIES if spec.rdma else ()
    return [*CAPABILITIES, *ssh, *rdma]


def _rdma_devices(node: NodeFacts) -> list[str]:
    """Return all devices of the node: tasks share adapters. Raises RuntimeFailure
    "spec_refused"."""
    require(node.rdma_devices, "this node has no InfiniBand devices")
    for path in node.rdma_devices:
        require(_RDMA_DEVICE.fullmatch(path), f"{path[:80]!r} is not an InfiniBand device")
    return [f"{path}:{path}:rw" for path in node.rdma_devices]


def _ulimits(spec: AttemptSpec) -> dict[str, int]:
    rdma = {"memlock": UNLIMITED} if spec.rdma else {}
    return {**rdma, **spec.ulimits, "core": 0}


def _check_ulimits(spec: AttemptSpec) -> None:
    """Check the limits. Locked memory and the stack count against the task's memory anyway."""
    memory = spec.memory_mb * MIB
    for name, value in spec.ulimits.items():
        require(name in ULIMITS, f"{name[:20]!r} is no limit that a task may set")
        free = (name == "memlock" and spec.rdma) or name == "stack"
        most = MAX_OPEN_FILES if name == "nofile" else memory
        ok = 0 < value <= most or (free and value == UNLIMITED)
        require(ok, f"ulimit {name} of {value}, at most {most}")


def _mounts(spec: AttemptSpec, node: NodeFacts, engine: EngineFacts) -> list[Mount] | None:
    """Return the mounts of the scratch and of storages, which the agent made. No path that
    the server names is passed to the engine."""
    from docker.types import Mount

    mounts = [
        Mount(
            mount.target,
            str(mount_point(node.cluster, node.name, spec, index)),
            type="bind",
            read_only=mount.read_only,
            propagation="rprivate",
        )
        for index, mount in enumerate(spec.all_mounts)
    ]
    if spec.scratch_mb and engine.scratch_image:
        point = str(scratch_point(node.cluster, node.name, spec))
        mounts.append(Mount(SCRATCH_DIR, point, type="bind", propagation="rprivate"))
    elif spec.scratch_mb:
        mounts.append(Mount(SCRATCH_DIR, scratch_volume(spec, node), type="volume", no_copy=True))
    return mounts or None


def _gpu_devices(spec: AttemptSpec, node: NodeFacts) -> ContainerDevices:
    if node.simulated_gpus or not spec.gpu_uuids:
        return ContainerDevices()
    try:
        devices = node.gpu_devices(spec.gpu_uuids)
    except KeyError as error:
        raise RuntimeFailure("gpu_unavailable", f"This node has no GPU {error.args[0]}.") from None
    for path in devices.paths:
        require(_GPU_DEVICE.fullmatch(path), f"{path[:80]!r} as a GPU's device")
    return devices


def _devices(spec: AttemptSpec, node: NodeFacts, gpus: ContainerDevices) -> list[str] | None:
    rdma = _rdma_devices(node) if spec.rdma else []
    return [*rdma, *(f"{path}:{path}:rw" for path in gpus.paths)] or None


def _device_requests(gpu_uuids: Sequence[str]) -> list[DeviceRequest]:
    from docker.types import DeviceRequest

    if not gpu_uuids:
        return []
    capabilities = [["gpu", "compute", "utility"]]
    return [DeviceRequest(driver="nvidia", device_ids=list(gpu_uuids), capabilities=capabilities)]


def _extra_hosts(spec: AttemptSpec, node: NodeFacts, plan: Plan | None) -> list[str]:
    """In the network of a gang the engine knows only its own tasks. In the host's network no one
    resolves the task's own name, but gloo and MPI ask for it."""
    if plan is not None:
        return [f"{name}:{address}" for name, address in plan.hosts.items()]
    if spec.network != "host":
        return []
    # Its own name first: torchrun takes the first one that belongs to its address for its name.
    hosts = {_hostname(spec): node.address, **spec.hosts}
    return [f"{name}:{address}" for name, address in hosts.items() if _is_ip(address)]


def _interface(spec: AttemptSpec, node: NodeFacts) -> str:
    """Return the interface of the task. The engine calls the first one of a container on a bridge
    eth0."""
    return node.interface if spec.network == "host" else "eth0"


def _hostname(spec: AttemptSpec) -> str:
    return spec.hostname or "task"


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
