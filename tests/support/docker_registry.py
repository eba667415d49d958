"""A real registry on loopback: Debian's docker-registry, with a password for everything or open to
everybody."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BINARIES = ("docker-registry", "htpasswd")
USER, PASSWORD = "hive", "s3cret-of-the-registry"


@dataclass(frozen=True, slots=True)
class Registry:
    address: str  # "127.0.0.1:PORT"

    def login(self) -> dict[str, str]:
        """For the Docker SDK's `auth_config`."""
        return {"username": USER, "password": PASSWORD}


def missing() -> str:
    """Why there can be no registry here, or ""."""
    absent = [name for name in BINARIES if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


@contextmanager
def registry(folder: Path, *, is_open: bool = False) -> Iterator[Registry]:
    """Serve from `folder` until the end of the context."""
    found = Registry(f"127.0.0.1:{_free_port()}")
    config = folder / "config.yml"
    settings = _config(folder, found.address)
    if is_open:
        del settings["auth"]
    config.write_text(json.dumps(settings))
    passwords = subprocess.check_output(["htpasswd", "-nbB", USER, PASSWORD])
    (folder / "htpasswd").write_bytes(passwords)
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
