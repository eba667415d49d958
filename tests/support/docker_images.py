"""Images made on the spot: no registry is needed."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import docker

BUSYBOX = Path("/bin/busybox")
COMMANDS = (  # noqa: SIM905
    "cat chroot cp cut date dd df echo env false free grep head hostname id ip kill ls mkdir mknod "
    "mount nc nproc nslookup ping printf ps rm sed seq setsid sh sleep stat su tail tee test touch "
    "tr true uname wc wget which xargs yes"
).split()


def busybox_tar(files: dict[str, bytes] | None = None) -> bytes:
    """A root file system: busybox with links for its commands, some empty folders, `files`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "var"):
            _add(tar, folder, kind=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        _add(tar, "bin/busybox", BUSYBOX.read_bytes(), mode=0o755)
        for command in COMMANDS:
            _add(tar, f"bin/{command}", kind=tarfile.SYMTYPE, link="busybox")
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nbee:x:1000:1000::/:/bin/sh\n")
        for name, content in (files or {}).items():
            _add(tar, name, content, mode=0o755)
    return buffer.getvalue()


def import_busybox(
    client: docker.DockerClient,
    name: str,
    changes: tuple[str, ...] = (),
    files: dict[str, bytes] | None = None,
) -> str:
    """Make the image `name` ("repository:tag"); `changes` are Dockerfile lines such as ENV."""
    repository, tag = name.rsplit(":", 1)
    client.api.import_image_from_data(
        busybox_tar(files), repository=repository, tag=tag, changes=list(changes)
    )
    return name


def random_bytes(size: int) -> bytes:
    """A layer that does not compress, so that a pull has something to do."""
    return os.urandom(size)


def _add(
    tar: tarfile.TarFile,
    name: str,
    content: bytes = b"",
    *,
    kind: bytes = tarfile.REGTYPE,
    mode: int = 0o644,
    link: str = "",
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(content)
    tar.addfile(entry, io.BytesIO(content))


def python_files() -> dict[str, bytes]:
    """This machine's Python, its standard library and what they are linked to."""
    program = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib")).resolve()
    found = {path for path in library.rglob("*") if path.is_file() and _is_needed(path, library)}
    linked = [program, *(path for path in found if path.suffix == ".so")]
    result = subprocess.run(["ldd", *map(str, linked)], capture_output=True, text=True, check=False)
    found |= {Path(name) for name in re.findall(r"(/\S+\.so\S*) \(0x", result.stdout)}
    files = {str(path).lstrip("/"): path.read_bytes() for path in found}
    files[str(program).lstrip("/")] = program.read_bytes()
    folders = ":".join(sorted({str(path.parent) for path in found if ".so" in path.name}))
    files["bin/python3"] = (
        f'#!/bin/sh\nexport LD_LIBRARY_PATH="{folders}"\nexec {program} "$@"\n'.encode()
    )
    return files


def _is_needed(path: Path, library: Path) -> bool:
    unneeded = {"site-packages", "dist-packages", "test", "idlelib", "ensurepip", "__pycache__"}
    return unneeded.isdisjoint(path.relative_to(library).parts) and path.suffix in {".py", ".so"}
