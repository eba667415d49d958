"""What a task finds below FILES_DIR: the files that the platform gives it, and its secrets.

Pure. A command or environment with secrets is delivered as files that only the task's own user can
read, and is sourced: the description of a container (`docker inspect`) is open to whoever may ask
the engine, and the process list of a node to everybody on it.
"""

from __future__ import annotations

import io
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from skep_agent.containers import require
from skep_agent.protocol import FILES_DIR, AttemptSpec, FileSpec

MAX_FILES = 64
MAX_BYTES = 4 * 1024 * 1024  # of all files and the command together
# What is looked for in every byte of a log. A secret has some 8 forms for each of its lines.
MAX_MASKS = 2000
MAX_MASK_BYTES = 256 * 1024  # together
# No setuid bits, and only the owner writes.
MODE_MASK = 0o755
_COMMAND, _ENV = "command", "env"
_NAME = re.compile(r"[0-9A-Za-z_.-]{1,64}")
_FOLDER = re.compile(r"/[^\0\r\n:]{0,1023}")
# The kernel's own, where a container has no business to be started or unpacked into.
_CLOSED_FOLDERS = frozenset({"proc", "sys", "dev"})
# What `export` of a shell takes; the environment of a create call may have more.
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Owner:
    """The user that a container runs as, by number."""

    uid: int = 0
    gid: int = 0


def command_is_secret(spec: AttemptSpec) -> bool:
    """Then the create call says only where the command stands."""
    return spec.secret_command or bool(spec.secret_env)


def sourced_command(spec: AttemptSpec) -> str:
    """What stands in the create call instead of a secret command."""
    names = [_ENV, _COMMAND] if spec.secret_env else [_COMMAND]
    return "; ".join(f". {FILES_DIR}{name}" for name in names)


def check_files(spec: AttemptSpec) -> None:
    """Raises RuntimeFailure "spec_refused" for a file outside of FILES_DIR, too much of them, or a
    folder that none may use."""
    names = [_relative(file) for file in spec.files]
    require(len(names) <= MAX_FILES, f"{len(names)} files, at most {MAX_FILES}")
    require(len(set(names)) == len(names), "a file is listed twice")
    for name in names:
        above = {str(parent) for parent in PurePosixPath(name).parents}
        taken = name in (_COMMAND, _ENV) or above & {*names, _COMMAND, _ENV}
        require(not taken, f"{FILES_DIR}{name} is taken")
    for name in spec.secret_env:
        require(_SHELL_NAME.fullmatch(name), f"{name[:80]!r} cannot be exported by a shell")
    size = sum(len(content) for _, content, _ in task_files(spec))
    require(size <= MAX_BYTES, f"its files have {size} bytes, at most {MAX_BYTES}")
    require(len(spec.masks) <= MAX_MASKS, f"{len(spec.masks)} masks, at most {MAX_MASKS}")
    size = sum(len(mask.encode("utf-8", "surrogatepass")) for mask in spec.masks)
    require(size <= MAX_MASK_BYTES, f"its masks have {size} bytes, at most {MAX_MASK_BYTES}")
    if spec.work_dir:
        check_folder(spec.work_dir)
    if spec.working_files is not None:
        check_folder(spec.working_files.path)


def check_folder(path: str, what: str = "a folder of the task") -> None:
    """Raises RuntimeFailure "spec_refused" unless it is the absolute path of a folder that a task
    may use, however it is spelled (CVE-2024-21626: /proc/self/fd/N as working directory led
    out)."""
    parts = [part for part in path.split("/") if part]
    plain = not {"..", "."} & set(parts) and not _CLOSED_FOLDERS & set(parts[:1])
    inside = "/".join(["", *parts, ""]).startswith(FILES_DIR)
    ok = _FOLDER.fullmatch(path) and plain and not inside
    require(ok, f"{path[:80]!r} as {what}")


def task_files(spec: AttemptSpec) -> Iterator[tuple[str, bytes, int]]:
    """Name below FILES_DIR, content and mode of each."""
    for file in spec.files:
        yield _relative(file), file.content.encode(), file.mode & MODE_MASK
    if command_is_secret(spec):
        yield _COMMAND, spec.command.encode(), 0o400
    if spec.secret_env:
        yield _ENV, _exports(spec.secret_env).encode(), 0o400


def files_tar(files: Iterable[tuple[str, bytes, int]], owner: Owner) -> bytes:
    """An archive to be unpacked in the parent of FILES_DIR, with an entry for every folder."""
    buffer = io.BytesIO()
    root = PurePosixPath(FILES_DIR).name
    folders: set[str] = set()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content, mode in files:
            path = PurePosixPath(root, name)
            for folder in reversed(path.parents[:-1]):
                if str(folder) not in folders:
                    folders.add(str(folder))
                    tar.addfile(_entry(str(folder), owner, 0o755, tarfile.DIRTYPE))
            entry = _entry(str(path), owner, mode)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def folders_tar(names: Iterable[str], owner: Owner, mode: int = 0o755) -> bytes:
    """Return an archive of empty folders, given from the outermost."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            tar.addfile(_entry(name, owner, mode, tarfile.DIRTYPE))
    return buffer.getvalue()


def _entry(name: str, owner: Owner, mode: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = kind, mode, owner.uid, owner.gid
    return entry


def _relative(file: FileSpec) -> str:
    name = file.path.removeprefix(FILES_DIR)
    parts = name.split("/")
    plain = all(_NAME.fullmatch(part) and part.strip(".") for part in parts)
    ok = file.path.startswith(FILES_DIR) and plain and len(parts) <= 8
    require(ok, f"the file {file.path[:80]!r} is not below {FILES_DIR}")
    return name


def _exports(env: dict[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
