"""Which folders of storages a container may get, and where in it they may appear.

Pure. The agent's own allow-list: host paths lie below roots that the node's owner named, NFS comes
from servers that they allow, and no target hides what the engine or the platform put there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from skep_agent.containers import RuntimeFailure, require
from skep_agent.protocol import AttemptSpec, S3Mount, StorageMount
from skep_limits import (
    CLOSED_HOST_FOLDERS,
    CLOSED_MOUNT_TARGETS,
    MAX_MOUNTS,
    is_bucket,
    is_endpoint,
    is_folder_name,
    is_nfs_option,
    is_region,
    is_server_name,
    is_storage_path,
    overlaps,
)

# Where the agent makes mounts for the engine to pass on; on a file system that a restart empties.
MOUNTS_DIR = Path("/run/skep-agent")


@dataclass(frozen=True, slots=True)
class StoragePolicy:
    """What the owner of a node allows. `roots`: folders below which host paths may lie, none by
    default; `nfs_servers` and `s3_endpoints`: None allows any."""

    roots: tuple[str, ...] = ()
    nfs_servers: tuple[str, ...] | None = None
    s3_endpoints: tuple[str, ...] | None = None

    @classmethod
    def parsed(
        cls,
        roots: Sequence[str] = (),
        nfs_servers: Sequence[str] = (),
        state: Path | None = None,
        s3_endpoints: Sequence[str] = (),
    ) -> Self:
        """Check what the command line says; no servers and no endpoints allow any. `state` is the
        agent's own folder. Raises ValueError."""
        closed = CLOSED_HOST_FOLDERS if state is None else (*CLOSED_HOST_FOLDERS, str(state))
        for root in roots:
            if not is_storage_path(root):
                raise ValueError(f"{root!r} is not a plain absolute path")
            if folder := overlaps(root, closed):
                raise ValueError(f"{root} overlaps with {folder}, which no task may see")
        for server in nfs_servers:
            if not is_server_name(server):
                raise ValueError(f"{server!r} is not a host name or an IPv4 address")
        for endpoint in s3_endpoints:
            if not is_endpoint(endpoint):
                raise ValueError(f"{endpoint!r} is not like https://s3.example.org")
        return cls(tuple(roots), tuple(nfs_servers) or None, tuple(s3_endpoints) or None)

    def check(self, mount: StorageMount | S3Mount) -> None:
        """Raises RuntimeFailure "storage_unavailable" for what this node does not allow."""
        if isinstance(mount, S3Mount):
            if self.s3_endpoints is not None and mount.endpoint not in self.s3_endpoints:
                raise unavailable(f"This node does not use the object store of {mount.storage}.")
        elif mount.type == "host_path":
            self.root_of(mount.path)
        elif self.nfs_servers is not None and mount.server not in self.nfs_servers:
            raise unavailable(f"This node mounts nothing from {mount.server}.")

    def root_of(self, path: str) -> str:
        """Return the root that has the path. Raises RuntimeFailure "storage_unavailable"."""
        for root in self.roots:
            if f"{path}/".startswith(f"{root}/"):
                return root
        raise unavailable(f"This node allows no storage at {path}.")


def unavailable(problem: str) -> RuntimeFailure:
    return RuntimeFailure("storage_unavailable", problem)


def check_mounts(spec: AttemptSpec) -> None:
    """Raises RuntimeFailure "spec_refused" with the first mount that no node makes."""
    mounts = spec.all_mounts
    require(len(mounts) <= MAX_MOUNTS, f"{len(mounts)} storages, at most {MAX_MOUNTS}")
    for index, mount in enumerate(mounts):
        if isinstance(mount, S3Mount):
            check_object_store(mount)
        else:
            _check_source(mount)
        target = mount.target
        require(is_storage_path(target), f"{target[:80]!r} as the place of a storage")
        closed = overlaps(target, CLOSED_MOUNT_TARGETS)
        require(not closed, f"a storage at {target}, which overlaps with {closed}")
        others = tuple(other.target for other in mounts[:index])
        other = overlaps(target, others)
        require(not other, f"storages at both {other} and {target}")
    if spec.working_files is not None:
        folder = spec.working_files.path
        inside = mount_of(spec, folder)
        require(inside is None, f"working files at {folder}, within a storage")


def mount_of(spec: AttemptSpec, folder: str) -> StorageMount | S3Mount | None:
    """Return the mount that has a folder of the container, or None."""
    parts = PurePosixPath(folder).parts
    for mount in spec.all_mounts:
        target = PurePosixPath(mount.target).parts
        if parts[: len(target)] == target:
            return mount
    return None


def _check_source(mount: StorageMount) -> None:
    path = mount.path
    root = mount.type == "nfs" and path == "/"
    require(root or is_storage_path(path), f"{path[:80]!r} as the path of a storage")
    if mount.type == "host_path":
        closed = overlaps(path, CLOSED_HOST_FOLDERS)
        require(not closed, f"the host path {path}, which overlaps with {closed}")
        require(not mount.server and not mount.options, "a host path with a server or options")
    else:
        require(is_server_name(mount.server), f"{mount.server[:80]!r} as an NFS server")
        for option in mount.options:
            require(is_nfs_option(option), f"the mount option {option[:40]!r}")
    parts = len(PurePosixPath(path).parts) - 1
    require(0 <= mount.inner <= parts, f"{mount.inner} folders of {path[:80]!r}")
    folder = mount.user_folder
    require(not folder or is_folder_name(folder), f"{folder[:80]!r} as the folder of a user")


def check_object_store(mount: S3Mount) -> None:
    """Raises RuntimeFailure "spec_refused" for what names no folder of a bucket."""
    require(is_endpoint(mount.endpoint), f"{mount.endpoint[:80]!r} as an object store")
    require(is_bucket(mount.bucket), f"{mount.bucket[:80]!r} as a bucket")
    require(not mount.region or is_region(mount.region), f"{mount.region[:40]!r} as a region")
    prefix = f"/{mount.prefix}"
    require(not mount.prefix or is_storage_path(prefix), f"{mount.prefix[:80]!r} in a bucket")
    folder = mount.user_folder
    require(not folder or is_folder_name(folder), f"{folder[:80]!r} as the folder of a user")


def mounts_dir(cluster: str, node: str) -> Path:
    """Return the folder in which a node makes its mounts; several nodes may share a machine."""
    return MOUNTS_DIR / hashlib.sha256(f"{cluster}\0{node}".encode()).hexdigest()[:16]


def mount_point(cluster: str, node: str, spec: AttemptSpec, index: int) -> Path:
    """Return where the node makes one mount of an attempt."""
    return mounts_dir(cluster, node) / f"{spec.attempt_id}.{spec.epoch}.{index}"


def scratch_point(cluster: str, node: str, spec: AttemptSpec) -> Path:
    """Return where the node mounts the file of an attempt's scratch."""
    return mounts_dir(cluster, node) / f"{spec.attempt_id}.{spec.epoch}.scratch"
