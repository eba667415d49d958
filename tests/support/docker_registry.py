"""A real registry on loopback: Debian's docker-registry, with a password for everything or open to
everybody."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.support import components
from tests.support.ports import free_port

BINARIES = ("docker-registry", "htpasswd")
USER, PASSWORD = "hive", "s3cret-of-the-registry"
CONFIG = {"Env": ["PATH=/bin", "CUDA_VERSION=12.8.1", "PYTORCH_VERSION=2.9.0"]}
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
OTHER, OTHER_PASSWORD = "bee", "another-s3cret"


@dataclass(frozen=True, slots=True)
class Registry:
    address: str  # "127.0.0.1:PORT"
    folder: Path

    def login(self) -> dict[str, str]:
        """For the Docker SDK's `auth_config`."""
        return {"username": USER, "password": PASSWORD}

    def let_in(self, **passwords: str) -> None:
        """Replace the accounts of the registry, which reads the file again."""
        lines = [
            subprocess.check_output(["htpasswd", "-nbB", user, password]).strip()
            for user, password in passwords.items()
        ]
        (self.folder / "htpasswd").write_bytes(b"\n".join(lines) + b"\n")

    def put(self, repository: str, tag: str = "1", *, layers: Sequence[int] = (100,)) -> str:
        """Store an image with layers of these sizes, without an engine, and return its digest."""
        blobs = [random.randbytes(size) for size in layers]
        config = {"architecture": "amd64", "os": "linux", "config": CONFIG}
        described = [
            {"mediaType": LAYER, "digest": self._blob(repository, blob), "size": len(blob)}
            for blob in blobs
        ]
        content = json.dumps(config).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "digest": self._blob(repository, content),
                "size": len(content),
            },
            "layers": described,
        }
        url = f"http://{self.address}/v2/{repository}/manifests/{tag}"
        headers = {"Content-Type": MANIFEST}
        sent = {"content": json.dumps(manifest), "headers": headers, "auth": self._auth()}
        answer = httpx.put(url, timeout=60, **sent)
        return answer.raise_for_status().headers["docker-content-digest"]

    def _blob(self, repository: str, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        url = f"http://{self.address}/v2/{repository}/blobs/uploads/"
        begun = httpx.post(url, auth=self._auth(), timeout=60).raise_for_status()
        place = httpx.URL(begun.headers["location"]).copy_merge_params({"digest": digest})
        httpx.put(place, content=content, auth=self._auth(), timeout=60).raise_for_status()
        return digest

    def _auth(self) -> tuple[str, str]:
        return USER, PASSWORD

    def requests(self) -> int:
        """Return how many requests the registry has answered about images."""
        return (self.folder / "registry.log").read_text().count(" /v2/")

    def manifests_asked(self, repository: str) -> int:
        """Return how often a manifest of the repository was asked for and given."""
        lines = (self.folder / "registry.log").read_text().splitlines()
        asked = re.compile(rf'"(GET|HEAD) /v2/{re.escape(repository)}/manifests/\S+ \S+" 200')
        return sum(bool(asked.search(line)) for line in lines)


@contextmanager
def registry(folder: Path, *, is_open: bool = False) -> Iterator[Registry]:
    """Serve from `folder` until the end of the context. Where its programs are not installed the
    test is skipped, and fails in CI."""
    if absent := [name for name in BINARIES if shutil.which(name) is None]:
        (pytest.fail if components.must_be_complete() else pytest.skip)(f"not installed: {absent}")
    found = Registry(f"127.0.0.1:{free_port()}", folder)
    config = folder / "config.yml"
    settings = _config(folder, found.address)
    if is_open:
        del settings["auth"]
    config.write_text(json.dumps(settings))
    found.let_in(**{USER: PASSWORD, OTHER: OTHER_PASSWORD})
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", config], stdout=log, stderr=log)
    try:
        _wait_until_answers(found.address, process)
        yield found
    finally:
        process.terminate()
        process.wait(60)


def _config(folder: Path, address: str) -> dict:
    """JSON is YAML too."""
    return {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": address},
        "auth": {"htpasswd": {"realm": "skep-test", "path": str(folder / "htpasswd")}},
    }


def _wait_until_answers(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://{address}/v2/", timeout=2)
            return
        except urllib.error.HTTPError as answer:
            if answer.code == 401:
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("docker-registry does not answer")
