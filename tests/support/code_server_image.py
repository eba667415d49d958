"""An image with code-server, made of the npm package and of what this machine has.

The package's own installation takes one part from a Git host and compiles more than a Linux server
needs. So its packages are installed without their scripts, the ones with native parts are compiled
with the headers of this machine's Node.js, and what is left out is named here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker
from tests.support.docker_images import busybox_tar
from tests.support.torch_image import BASH, _add_link, _add_script, _libraries

VERSION = "4.96.4"  # the newest for Node.js 20
IMAGE = f"skep-test/code-server:{VERSION}"
HOME = "/opt/code-server"  # of the image
PROGRAM = f'#!/bin/sh\nexec /bin/node {HOME}/node_modules/code-server/out/node/entry.js "$@"\n'
# Windows, and single sign-on of proxies by Kerberos.
LEFT_OUT = ("@vscode/windows-process-tree", "@vscode/windows-registry", "kerberos")
# Named by its Git commit in the package; the same release is at npm.
PROXY_AGENT = ("@vscode/proxy-agent", "0.27.0")
COMPILED = ("@vscode/spdlog", "native-watchdog", "@parcel/watcher", "node-pty")


def code_server_image(client: docker.DockerClient) -> str:
    """Its reference. Made at most once on a machine: two minutes, and 60 MB of downloads."""
    if not client.images.list(name=IMAGE):
        with tempfile.TemporaryDirectory(prefix="skep-test-code-server-") as folder:
            root = Path(folder) / "root"
            root.mkdir()
            _install(root)
            archive = Path(folder) / "image.tar"
            _write(archive, root)
            repository, tag = IMAGE.split(":")
            client.api.import_image_from_file(
                str(archive),
                repository=repository,
                tag=tag,
                changes=["ENV PATH=/bin HOME=/tmp SHELL=/bin/bash", "WORKDIR /work"],
            )
    return IMAGE


def _node() -> Path:
    return Path(shutil.which("node") or "node").resolve()


def _npm(folder: Path, *arguments: str) -> None:
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    env = {**os.environ, "npm_config_nodedir": str(_node().parents[1])}
    done = subprocess.run(
        ["npm", *arguments, *quiet],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"npm {arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def _install(root: Path) -> None:
    (root / "package.json").write_text('{"private": true}')
    _npm(root, "install", "--ignore-scripts", f"code-server@{VERSION}")
    argon = root / "node_modules/argon2"
    command = ("exec", "--yes", "--", "node-pre-gyp", "rebuild", "--build-from-source")
    _npm(argon, *command, f"--nodedir={_node().parents[1]}")

    editor = root / "node_modules/code-server/lib/vscode"
    package = editor / "package.json"
    described = json.loads(package.read_text())
    name, version = PROXY_AGENT
    described["dependencies"][name] = version
    for left_out in LEFT_OUT:
        described["dependencies"].pop(left_out, None)
    package.write_text(json.dumps(described))
    (editor / "npm-shrinkwrap.json").unlink()
    _npm(editor, "install", "--ignore-scripts", "--omit=dev")
    _npm(editor, "rebuild", *COMPILED)


def _write(archive: Path, root: Path) -> None:
    archive.write_bytes(busybox_tar())
    with tarfile.open(archive, "a") as tar:
        tar.add(root, HOME)
        asar = f"{HOME}/node_modules/code-server/lib/vscode/node_modules.asar"
        _add_link(tar, asar, Path("node_modules"))
        tar.add(_node(), "/bin/node")
        for path in {BASH, *_libraries([_node(), BASH, *root.rglob("*.node")])}:
            tar.add(path.resolve(), str(path))
        _add_script(tar, "/bin/code-server", PROGRAM.encode())
