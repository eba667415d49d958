"""The environment of a container, with the holes closed that an image can open.

An image's ENV cannot be unset through the engine, only overridden, and NVIDIA's container hook
(which runs as root on the host) obeys several of these variables: CVE-2025-23266 "NVIDIAScape" came
in by LD_PRELOAD, and `NVIDIA_VISIBLE_DEVICES=all` in an image shows every GPU of the node.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

from skep_agent.containers import require
from skep_agent.protocol import SCRATCH_DIR, AttemptSpec
from skep_limits import MAX_ARGUMENT_BYTES, is_node_variable

# Set on every container, also on those without a GPU.
CLOSED = {
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    "NVIDIA_MOFED": "",
    "NVIDIA_GDS": "",
    "NVIDIA_GDRCOPY": "",
    "NVIDIA_NVSWITCH": "",
    "NVIDIA_IMEX_CHANNELS": "",
    "NVIDIA_MIG_CONFIG_DEVICES": "",
    "NVIDIA_MIG_MONITOR_DEVICES": "",
    "LD_PRELOAD": "",
}
# Only the agent sets these, and those with a prefix of the node.
RESERVED_NAMES = frozenset({"SKEP_GPU_UUIDS"})
# Left alone, NCCL and gloo may choose an interface that other nodes do not reach.
INTERFACE_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
MAX_TOTAL_BYTES = 1024 * 1024

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}")


def check_env(env: Mapping[str, str]) -> None:
    """Raises RuntimeFailure "spec_refused" for a variable that a task may not set."""
    total = 0
    for name, value in env.items():
        size = len(name.encode()) + 1 + len(value.encode())
        total += size
        require(_NAME.fullmatch(name), f"{name[:80]!r} is not the name of an environment variable")
        free = not is_node_variable(name) and name not in RESERVED_NAMES
        require(free, f"the environment variable {name} is set by the node alone")
        plain = "\0" not in value and size <= MAX_ARGUMENT_BYTES
        require(
            plain,
            f"the value of {name} holds a NUL byte or has more than {MAX_ARGUMENT_BYTES} bytes",
        )
    require(
        total <= MAX_TOTAL_BYTES, f"the environment has {total} bytes, at most {MAX_TOTAL_BYTES}"
    )


def container_env(
    spec: AttemptSpec, image_env: Iterable[str], *, simulated_gpus: bool, interface: str = ""
) -> dict[str, str]:
    """What the create call sets; later entries win over the image's and the spec's. `interface`
    is the one that tasks of other nodes reach it by; "": unknown."""
    visible = ",".join(spec.gpu_uuids)
    simulated = {"CUDA_VISIBLE_DEVICES": visible} if simulated_gpus and visible else {}
    hook = visible if visible and not simulated_gpus else "void"
    return {
        **_override(image_env, hook),
        **(dict.fromkeys(INTERFACE_NAMES, interface) if interface else {}),
        **spec.env,
        **CLOSED,
        **simulated,
        "NVIDIA_VISIBLE_DEVICES": hook,
        "SKEP_GPU_UUIDS": visible,
        **({"SKEP_SCRATCH_DIR": SCRATCH_DIR} if spec.scratch_mb else {}),
        # docker-init passes a signal on to the whole process group, not to the shell alone.
        "TINI_KILL_PROCESS_GROUP": "1",
    }


def _override(image_env: Iterable[str], hook: str) -> dict[str, str]:
    """Return new values for the variables of an image that steer the loader or NVIDIA's hook."""
    closed = {}
    for entry in image_env:
        name, _, value = entry.partition("=")
        if name == "LD_LIBRARY_PATH":
            closed[name] = _safe_library_path(value)
        elif name.startswith("LD_"):
            closed[name] = ""
        elif name.startswith("DOCKER_RESOURCE_"):
            # With `swarm-resource` configured the hook prefers these to NVIDIA_VISIBLE_DEVICES.
            closed[name] = hook
    return closed


def _safe_library_path(value: str) -> str:
    """Images need it (CUDA's set it), but the hook inherits it with the container's root as its
    working directory: only folders that cannot lead there are kept."""
    return ":".join(folder for folder in value.split(":") if _is_safe_folder(folder))


def _is_safe_folder(folder: str) -> bool:
    # /proc/self/cwd, /proc/self/root and /dev/fd lead back into the container, `..` may too (past a
    # symbolic link of the host), and `$` begins $ORIGIN.
    parts = posixpath.normpath(folder).strip("/").split("/")
    return (
        folder.startswith("/")
        and "$" not in folder
        and ".." not in folder.split("/")
        and parts[0] not in ("proc", "dev", "sys")
    )
