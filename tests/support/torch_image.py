"""An image with Python and the CPU build of PyTorch, made of what this machine has.

No registry is asked: the interpreter that runs the tests, its standard library, PyTorch as pip
installs it, busybox for a shell, and every shared library that any of them needs.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import docker
from tests.support.docker_images import busybox_tar

TORCH = "2.13.0"
IMAGE = f"skep-test/torch:{TORCH}"
PYTHON_IMAGE = f"skep-test/python:{sys.version_info.major}.{sys.version_info.minor}"
BASH = Path("/bin/bash")
SITE = "/opt/site"  # of the image
# What training does not need, which is half of it. Compiled modules come along: eight processes
# that compile PyTorch at the same time take minutes.
LEFT_OUT = re.compile(
    r"/(torch/(test/|include/|share/|bin/(?!torch_shm))|test/|idlelib/|ensurepip/)|\.a$"
)
TORCHRUN = b'#!/bin/sh\nexec python -m torch.distributed.run "$@"\n'  # pip's names its own python


def torch_image(client: docker.DockerClient) -> str:
    """Its reference. Made at most once on a machine: about a minute, and a download of 200 MB."""
    if not client.images.list(name=IMAGE):
        with tempfile.TemporaryDirectory(prefix="skep-test-torch-") as folder:
            site = Path(folder) / "site"
            _install(site)
            archive = Path(folder) / "image.tar"
            _write(archive, site)
            _import(client, archive, IMAGE)
    return IMAGE


def python_image(client: docker.DockerClient) -> str:
    """An image with Python and bash alone. Its reference; made at most once on a machine."""
    if not client.images.list(name=PYTHON_IMAGE):
        with tempfile.TemporaryDirectory(prefix="skep-test-python-") as folder:
            archive = Path(folder) / "image.tar"
            _write(archive, Path(folder) / "no-site")
            _import(client, archive, PYTHON_IMAGE)
    return PYTHON_IMAGE


def _install(site: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target"]
    subprocess.run([*command, str(site), f"torch=={TORCH}", "numpy"], check=True)


def _write(archive: Path, site: Path) -> None:
    archive.write_bytes(busybox_tar())
    with tarfile.open(archive, "a") as tar:
        _add_tree(tar, site, SITE)
        for folder in _standard_library():
            _add_tree(tar, folder, str(folder))
        interpreter = Path(sys.executable).resolve()
        binaries = [interpreter, BASH, *site.rglob("*.so*"), *_extensions()]
        for path in {interpreter, BASH, *_libraries(binaries)}:
            tar.add(path.resolve(), str(path))
        _add_link(tar, "/bin/python", interpreter)
        _add_link(tar, "/bin/python3", interpreter)
        _add_script(tar, "/bin/torchrun", TORCHRUN)


def _standard_library() -> list[Path]:
    """Without the packages of this environment."""
    names = ("stdlib", "platstdlib")
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    return sorted({Path(sysconfig.get_path(name, vars=base)) for name in names})


def _extensions() -> Iterable[Path]:
    for folder in _standard_library():
        yield from (folder / "lib-dynload").glob("*.so")


def _libraries(binaries: Iterable[Path]) -> set[Path]:
    """The shared libraries of the system that they are linked to, and the loader."""
    listed = [str(path) for path in binaries if path.is_file()]
    said = subprocess.run(["ldd", *listed], capture_output=True, text=True, check=False).stdout
    found = {Path(name) for name in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE)}
    return {path for path in found if not path.is_relative_to(tempfile.gettempdir())}


def _add_tree(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    for path in _files(folder):
        inside = f"{name}/{path.relative_to(folder)}"
        if "/site-packages/" not in inside and not LEFT_OUT.search(inside):
            tar.add(path, inside, recursive=False)


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent) / name for name in names)


def _add_link(tar: tarfile.TarFile, name: str, target: Path) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, str(target)
    tar.addfile(link)


def _add_script(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    script = tarfile.TarInfo(name)
    script.mode, script.size = 0o755, len(content)
    tar.addfile(script, io.BytesIO(content))


def _import(client: docker.DockerClient, archive: Path, image: str, *more: str) -> None:
    """`more` are further variables, as NAME=VALUE."""
    repository, tag = image.split(":")
    variables = (f"PYTHONPATH={SITE}", "PATH=/bin", "PYTHONUNBUFFERED=1", "OMP_NUM_THREADS=1")
    changes = [f"ENV {' '.join((*variables, *more))}"]
    client.api.import_image_from_file(str(archive), repository=repository, tag=tag, changes=changes)
