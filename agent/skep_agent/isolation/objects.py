"""Which file of a folder an object of a bucket is, and which object a file becomes.

Pure. Whoever may write to a bucket chooses the keys, and a task chooses the names of its files:
none of them leads out of its folder, or out of its prefix. What has no counterpart is refused,
never renamed.
"""

from __future__ import annotations

from collections.abc import Sequence

from skep_agent.protocol import S3Mount

MAX_KEY_BYTES = 1024
MAX_NAME_BYTES = 255
MAX_DEPTH = 64


class NoFile(ValueError):
    """An object that no file can be, or a file that no object can be. The text says why."""


def prefix_of(mount: S3Mount) -> str:
    """Return what the keys of a mount begin with: "", or folders that end in "/"."""
    parts = [part for part in (mount.prefix, mount.user_folder) if part]
    return "/".join(parts) + "/" if parts else ""


def file_of(key: str, prefix: str) -> tuple[tuple[str, ...], bool]:
    """Return the names of the folders and the file of an object below the mount, and whether it
    stands for a folder, as keys that end in "/" do. No names: the prefix itself. Raises NoFile."""
    if not key.startswith(prefix):
        raise NoFile("lies outside of the storage")
    below = key[len(prefix) :]
    if not below:
        return (), True
    is_folder = below.endswith("/")
    names = tuple((below[:-1] if is_folder else below).split("/"))
    _check(names)
    return names, is_folder


def key_of(names: Sequence[str], prefix: str) -> str:
    """Return the key of a file below the mount. Raises NoFile."""
    _check(names)
    key = prefix + "/".join(names)
    if len(key.encode()) > MAX_KEY_BYTES:
        raise NoFile(f"has a name of more than {MAX_KEY_BYTES} bytes")
    return key


def _check(names: Sequence[str]) -> None:
    if len(names) > MAX_DEPTH:
        raise NoFile(f"lies in more than {MAX_DEPTH - 1} folders")
    for name in names:
        if name in ("", ".", "..") or "\0" in name or "/" in name:
            raise NoFile("has a name that leads elsewhere")
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise NoFile("has a name that is not UTF-8") from None
        if size > MAX_NAME_BYTES:
            raise NoFile(f"has a part of its name of more than {MAX_NAME_BYTES} bytes")
