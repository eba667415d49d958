"""What the wire contract says of storages; `protocol` has it all."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skep_agent.inventory import Message

# It mounts a folder within an export (`StorageMount.inner`) without following a link.
INNER_MOUNTS = "inner_mounts"
# It fills folders from object stores, and writes them back (`AttemptSpec.s3`).
S3_MOUNTS = "s3_mounts"


class StorageMount(Message):
    """A folder of a storage that the container finds at `target`. The node makes the mount, by its
    own rules: without set-user-id programs and devices, and without a link on the way."""

    type: Literal["nfs", "host_path"]
    server: str = ""  # of NFS
    path: str  # of the export, or of the folder on the node
    # So many names at the end of `path` are folders below the export, which tenants may write.
    inner: int = 0
    options: list[str] = []  # of NFS
    # Name of one folder below `path`, made for the task's user where it is not there; "": `path`.
    user_folder: str = ""
    target: str
    read_only: bool = False


class S3Mount(Message):
    """A copy of the objects of a storage, as files that the container finds at `target`: filled
    before it starts, and written back when it has ended unless it is read-only. The container never
    gets the keys, and the agent keeps them in memory alone."""

    storage: str  # its name, as people know it
    endpoint: str  # such as https://s3.example.org
    region: str = ""
    bucket: str
    prefix: str = ""  # the folder in the bucket, without "/" at its end; "": all of it
    path_style: bool = True  # the bucket is part of the path, not of the host's name
    access_key: str = Field(default="", repr=False)  # "": requests are not signed
    secret_key: str = Field(default="", repr=False)
    user_folder: str = ""  # one folder below `prefix`, that of the task's user; "": `prefix`
    target: str
    read_only: bool = False
