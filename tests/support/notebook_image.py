"""An image with JupyterLab and TensorBoard, made of what this machine has (see `torch_image`)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import docker
from tests.support.torch_image import SITE, _import, _write

IMAGE = "skep-test/notebook:1"
PACKAGES = ("jupyterlab>=4.4,<5", "tensorboard>=2.19", "numpy", "setuptools<81")
# What pip installs names the interpreter of this machine.
PROGRAMS = {"jupyter-lab": "jupyterlab", "tensorboard": "tensorboard.main"}


def notebook_image(client: docker.DockerClient) -> str:
    """Its reference. Made at most once on a machine: about two minutes, and 60 MB of downloads."""
    if not client.images.list(name=IMAGE):
        with tempfile.TemporaryDirectory(prefix="skep-test-notebook-") as folder:
            site = Path(folder) / "site"
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site)]
            subprocess.run([*command, *PACKAGES], check=True)
            programs = site / "programs"
            programs.mkdir()
            for name, module in PROGRAMS.items():
                program = programs / name
                program.write_text(f'#!/bin/sh\nexec python -m {module} "$@"\n')
                program.chmod(0o755)
            archive = Path(folder) / "image.tar"
            _write(archive, site)
            _import(
                client,
                archive,
                IMAGE,
                f"PATH=/bin:{SITE}/programs",
                "HOME=/tmp",
                f"JUPYTER_PATH={SITE}/share/jupyter",
                f"JUPYTER_CONFIG_PATH={SITE}/etc/jupyter",
                f"JUPYTERLAB_DIR={SITE}/share/jupyter/lab",
            )
    return IMAGE
