"""Makes the image skep-demo:latest from what this machine has, without a registry: its Python
with the standard library and the shared libraries they need, a static busybox as the shell, and
the training program. Does nothing when the image is there and up to date.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker

REPOSITORY, TAG = "skep-demo", "latest"
LABEL = "skep.demo.made-of"
PROGRAM = Path(__file__).with_name("train.py")
PYTHON = Path(sys.executable).resolve()
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Of the standard library: what a training program has no use for.
LEFT_OUT = {
    *("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo"),
    *("ensurepip", "lib2to3", "pydoc_data", "__pycache__"),
}
SHELL_COMMANDS = ("sh", "cat", "date", "echo", "env", "head", "hostname", "ls", "nproc", "ps")
SHELL_COMMANDS += ("seq", "sleep", "tail", "test", "true", "false", "wc")


def main() -> int:
    client = docker.from_env()
    made_of = identity()
    if _present(client) == made_of:
        return 0
    print(f"Building {REPOSITORY}:{TAG} from {PYTHON}", file=sys.stderr)
    client.api.import_image_from_data(
        root_file_system(),
        repository=REPOSITORY,
        tag=TAG,
        changes=[
            f"LABEL {LABEL}={made_of}",
            "ENV PATH=/usr/local/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1",
            "WORKDIR /tmp",
        ],
    )
    return 0


def identity() -> str:
    """A hash of all that the image is made of."""
    parts = [Path(__file__).read_bytes(), PROGRAM.read_bytes(), sys.version.encode()]
    for file in (PYTHON, _busybox(), Path(os.__file__)):
        parts.append(f"{file} {file.stat().st_mtime_ns} {file.stat().st_size}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def root_file_system() -> bytes:
    """Return an uncompressed tar of the image's files, all owned by root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder, mode in (("tmp", 0o1777), ("root", 0o700), ("etc", 0o755)):
            _add_folder(tar, folder, mode)
        _add_text(tar, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        _add_text(tar, "etc/group", "root:x:0:\n")
        _add_shell(tar)
        _add_python(tar)
        _add_file(tar, PROGRAM, "opt/demo/train.py")
    return buffer.getvalue()


def _add_shell(tar: tarfile.TarFile) -> None:
    _add_file(tar, _busybox(), "bin/busybox")
    for name in SHELL_COMMANDS:
        _add_link(tar, f"bin/{name}", "busybox")


def _add_python(tar: tarfile.TarFile) -> None:
    """At /usr/local, where Python finds its library beside itself."""
    _add_file(tar, PYTHON, f"usr/local/bin/{VERSION}")
    _add_link(tar, "usr/local/bin/python3", VERSION)
    extensions = []
    for file in _standard_library():
        target = f"usr/local/lib/{VERSION}/{file.relative_to(_library_folder())}"
        _add_file(tar, file, target)
        if file.suffix == ".so":
            extensions.append(file)
    for library in sorted(_shared_libraries([PYTHON, *extensions])):
        _add_file(tar, library, str(library).lstrip("/"))


def _library_folder() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def _standard_library() -> Iterator[Path]:
    for folder, names, files in os.walk(_library_folder()):
        names[:] = sorted(n for n in names if n not in LEFT_OUT and not n.startswith("config-"))
        yield from (p for f in sorted(files) if (p := Path(folder, f)).exists())


def _shared_libraries(programs: list[Path]) -> set[Path]:
    """Everything the loader would map, under the very paths it looks at, and the loader itself."""
    found: set[Path] = set()
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        found |= {Path(path) for path in re.findall(r"(/\S+) \(0x", listed.stdout)}
    return found


def _busybox() -> Path:
    path = shutil.which("busybox")
    if path is None:
        sys.exit("busybox is missing: run scripts/bootstrap docker")
    return Path(path).resolve()


def _present(client: docker.DockerClient) -> str:
    try:
        return str(client.images.get(f"{REPOSITORY}:{TAG}").labels.get(LABEL, ""))
    except docker.errors.ImageNotFound:
        return ""


def _add_file(tar: tarfile.TarFile, source: Path, target: str) -> None:
    entry = tarfile.TarInfo(target)
    entry.size = source.stat().st_size
    entry.mode = 0o755 if os.access(source, os.X_OK) else 0o644
    with source.open("rb") as file:
        tar.addfile(entry, file)


def _add_text(tar: tarfile.TarFile, target: str, text: str) -> None:
    entry = tarfile.TarInfo(target)
    entry.size = len(text)
    tar.addfile(entry, io.BytesIO(text.encode()))


def _add_link(tar: tarfile.TarFile, target: str, to: str) -> None:
    entry = tarfile.TarInfo(target)
    entry.type, entry.linkname = tarfile.SYMTYPE, to
    tar.addfile(entry)


def _add_folder(tar: tarfile.TarFile, target: str, mode: int) -> None:
    entry = tarfile.TarInfo(target)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


if __name__ == "__main__":
    sys.exit(main())
