"""Limits and patterns that the client, the job file, the platform and the agent have in common.

Each of them checks for itself: the server checks what users send, and the agent checks again what
the server sends. What they compare with is written down here once. A leaf: it imports nothing of
ours, and nothing but the standard library.
"""

from __future__ import annotations

import ipaddress
import re

# --- the timing of agents, in seconds

# By name: from, to. A node with a lease of less than a second is fenced by any pause; one of more
# than a day goes on with its tasks for that long after the server has given them to others.
TIMING_S = {
    "lease_s": (1.0, 24 * 3600.0),
    "heartbeat_interval_s": (0.05, 600.0),
    "sample_interval_s": (0.05, 3600.0),
}


def timing_problem(lease_s: float, heartbeat_interval_s: float, sample_interval_s: float) -> str:
    """Return why agents do not take this timing; "" where they do."""
    values = lease_s, heartbeat_interval_s, sample_interval_s
    for (name, (first, last)), value in zip(TIMING_S.items(), values, strict=True):
        if not first <= value <= last:  # also for what is no number
            return f"{name} is {value:g}, and is from {first:g} to {last:g}"
    if heartbeat_interval_s >= lease_s:
        return f"heartbeat_interval_s is {heartbeat_interval_s:g}, not less than lease_s"
    return ""


# --- images

# [registry[:port]/]path[:tag][@digest], each part matched in linear time.
IMAGE_REFERENCE = re.compile(
    r"[0-9A-Za-z][0-9A-Za-z._-]*(:[0-9]+)?(/[0-9a-z]+([._-]+[0-9a-z]+)*)*"
    r"(:[0-9A-Za-z_][0-9A-Za-z_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
MAX_IMAGE_REFERENCE = 512  # characters


def is_image_reference(text: str) -> bool:
    """Whether the text is an image reference, or the plain name of an image that the platform
    knows, in which capitals are allowed."""
    return len(text) <= MAX_IMAGE_REFERENCE and IMAGE_REFERENCE.fullmatch(text) is not None


def can_be_pulled(text: str) -> bool:
    """Whether an engine takes the text as an image reference: its path has no capitals."""
    name = text.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return is_image_reference(text) and name == name.lower()


# --- environment variables

# They steer the programs of the node that start a container (the NVIDIA hook, the dynamic linker),
# so only the node sets them.
NODE_VARIABLE_PREFIXES = ("NVIDIA_", "LD_", "DOCKER_RESOURCE_")
# Set by the platform: where a task is, and where the others are.
PLATFORM_VARIABLE_PREFIXES = ("PAI_", "SKEP_", "MASTER_")
PLATFORM_VARIABLES = frozenset(
    {"RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TF_CONFIG"}
    | {"HIVED_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "TINI_KILL_PROCESS_GROUP"}
)
MAX_VARIABLE_NAME = 255  # characters


def is_platform_variable(name: str) -> bool:
    """Whether the platform itself sets this environment variable in each task."""
    return name.startswith(PLATFORM_VARIABLE_PREFIXES) or name in PLATFORM_VARIABLES


def is_node_variable(name: str) -> bool:
    """Whether only the node may set this environment variable of a container."""
    return name.startswith(NODE_VARIABLE_PREFIXES)


# The kernel's MAX_ARG_STRLEN: a longer argument, or variable with its name and "=", fails exec with
# E2BIG.
MAX_ARGUMENT_BYTES = 128 * 1024 - 1

# --- archives of working files

MAX_ARCHIVE_BYTES = 256 * 1024**2  # packed
MAX_UNPACKED_BYTES = 2 * 1024**3
MAX_ARCHIVE_MEMBERS = 50_000


def inner_parts(name: str) -> tuple[str, ...] | None:
    """Return the parts of a member's name below the root of its archive; None for a name that leads
    out of it."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    leads_out = name.startswith("/") or ".." in parts or "\0" in name
    return None if leads_out else parts


# --- tags of jobs

MAX_TAG = 64  # characters
TAG = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:/-]{{0,{MAX_TAG - 1}}}")

# --- what a job may ask for

MAX_GRACE_S = 3600  # of each kind, between a signal and the next one
MAX_SCRATCH_MB = 2**30
MAX_OPEN_FILES = 2**20  # of a process

# --- metrics that a job writes into its log

METRIC_NAME = r"^[a-z][a-z0-9_]*$"
MAX_METRIC_NAME = 64  # characters
MAX_METRICS = 16  # patterns of a job file
MAX_METRIC_PATTERN = 256  # characters
# What a line of the log begins with that has metrics in it, `name=number` each, in front of them.
METRIC_LINE = "::skep-metric"
# What a metric cannot be called: it says where the others belong.
METRIC_STEP = "step"

# --- storages

MAX_STORAGE_PATH = 1024  # characters
MAX_STORAGES = 16  # that a job asks for
MAX_MOUNTS = MAX_STORAGES + 1  # with the home of its owner
# No comma, colon, space or quote: they have a meaning in mount options and in fstab.
_STORAGE_PATH = re.compile(r"(/[0-9A-Za-z_@+=~.-]{1,255})+")
_SERVER = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.-]{0,251}[0-9A-Za-z])?")
# Folders of a node that hold its system, its secrets or its engine.
CLOSED_HOST_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root"),
    *("/run", "/sbin", "/sys", "/usr", "/var/lib/containerd", "/var/lib/docker"),
    *("/var/lib/kubelet", "/var/lib/skep", "/var/lib/skep-agent", "/var/run", "/var/spool"),
)
# Folders of a container that belong to the kernel, the engine or the platform.
CLOSED_MOUNT_TARGETS = (
    *("/proc", "/sys", "/dev", "/run", "/skep", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr"),
    *("/var/run", "/boot"),
)
# Options of nfs(5) that tune a mount. What a mount may do (suid, dev, exec) is not among them: the
# node decides that.
_NUMBER = r"\d{1,7}"
_NFS_OPTIONS = re.compile(
    r"(nfs)?vers=(3|4|4\.[012])|minorversion=[012]|proto=(tcp|rdma)|hard|soft|softerr"
    rf"|(timeo|retrans|rsize|wsize|acregmin|acregmax|acdirmin|acdirmax|actimeo)={_NUMBER}"
    rf"|(port|mountport|nconnect|max_connect)={_NUMBER}"
    r"|sec=(sys|krb5|krb5i|krb5p)|lookupcache=(all|none|pos|positive)"
    r"|(no)?(ac|cto|lock|rdirplus|resvport|sharecache)|(no|nodir|rel)atime|sync|async"
)


def is_storage_path(text: str) -> bool:
    """Whether the text is a plain absolute path: no `.` or `..`, nothing doubled, no end in `/`."""
    if len(text) > MAX_STORAGE_PATH or not _STORAGE_PATH.fullmatch(text):
        return False
    return not {".", ".."} & set(text.split("/"))


_ENDPOINT = re.compile(
    r"https?://([0-9A-Za-z]([0-9A-Za-z.-]{0,251}[0-9A-Za-z])?|\[(?P<six>[0-9A-Fa-f:.]{2,45})\])"
    r"(:(?P<port>[0-9]{1,5}))?"
)
_BUCKET = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{1,61}[0-9A-Za-z]")
_REGION = re.compile(r"[0-9a-z][0-9a-z-]{0,31}")


def is_endpoint(text: str) -> bool:
    """Whether the text is the address of an object store: scheme, host and perhaps a port."""
    found = _ENDPOINT.fullmatch(text)
    if found is None or ".." in text:
        return False
    try:
        ipaddress.IPv6Address(found["six"] or "::")
    except ValueError:
        return False
    return found["port"] is None or 0 < int(found["port"]) <= 65535


def is_closed_address(text: str) -> bool:
    """Whether the text is an address of clouds for their machines, or none of a single host.
    Private ones are not closed. Raises ValueError for a text that is no address."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    metadata = str(address) == "fd00:ec2::254"
    return address.is_link_local or address.is_multicast or address.is_unspecified or metadata


def is_bucket(text: str) -> bool:
    """Whether the text can be the name of a bucket of S3."""
    return _BUCKET.fullmatch(text) is not None and ".." not in text


def is_region(text: str) -> bool:
    """Whether the text can be the name of a region of an object store."""
    return _REGION.fullmatch(text) is not None


def is_server_name(text: str) -> bool:
    """Whether the text is a host name or an IPv4 address."""
    return _SERVER.fullmatch(text) is not None and ".." not in text


def is_nfs_option(text: str) -> bool:
    """Whether a storage may set this mount option."""
    return len(text) <= 64 and _NFS_OPTIONS.fullmatch(text) is not None


def overlaps(path: str, folders: tuple[str, ...]) -> str:
    """Return the first of these folders that is the path, lies below it or has it below; "" if
    none does."""
    for folder in folders:
        if f"{path}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{path}/"):
            return folder
    return ""


def is_folder_name(text: str) -> bool:
    """Whether the text can be the name of one folder, as a user's own in a storage."""
    plain = text.isprintable() and "/" not in text and text not in ("", ".", "..")
    return plain and len(text.encode("utf-8", "surrogatepass")) <= 255
