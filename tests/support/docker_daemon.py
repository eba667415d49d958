"""A second Docker engine beside the machine's: with its own NVIDIA hook, and free to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import docker

# The hook of NVIDIA's container toolkit, as far as the engine knows it: called as root on the host
# with the container's state on its input. Keeps the environment that the container will have.
HOOK = """#!{python}
import json, pathlib, sys
state = json.load(sys.stdin)
config = json.loads((pathlib.Path(state["bundle"]) / "config.json").read_text())
seen = {{"arguments": sys.argv[1:], "env": config["process"]["env"]}}
pathlib.Path({folder!r}, state["id"] + ".json").write_text(json.dumps(seen))
"""
CONTAINERD = """version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{folder}/containerd.sock"
"""


def in_netns(name: str) -> tuple[str, str]:
    """Before a command. Not `ip netns exec`, which hides the mounts of one from the other."""
    return ("nsenter", f"--net=/run/netns/{name}")


class Daemon:
    """A dockerd with a containerd of its own, in `folder`, and in network namespaces of their own:
    a second dockerd in the machine's would take `docker0` and the rules of the first away. With the
    name of a namespace in `netns` it lives there, as on a machine of its own."""

    def __init__(self, folder: Path, netns: str = "") -> None:
        self.folder = folder
        self._netns = netns
        self.socket = folder / "docker.sock"
        self.hooked = folder / "hooked"
        (folder / "daemon.json").write_text("{}")
        (folder / "containerd.toml").write_text(CONTAINERD.format(folder=folder))
        self._install_hook()
        self._containerd = self._spawn(["containerd", "--config", str(folder / "containerd.toml")])
        self._dockerd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        dockerd = self._dockerd = self._spawn(self._arguments())
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and dockerd.poll() is None:
            if self._answers():
                return
            time.sleep(0.1)
        raise RuntimeError((self.folder / "log").read_text()[-3000:])

    def kill(self) -> None:
        """As a crash: its containers live on (`--live-restore`)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """For good; every container must have been removed."""
        self._end(signal.SIGTERM)
        self._containerd.terminate()
        self._containerd.wait(60)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in (mount for mount in mounts if mount.startswith(f"{self.folder}/")):
            subprocess.run(["umount", "-l", mount], check=False)

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=f"unix://{self.socket}", timeout=60)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        path = f"{self.folder / 'bin'}:/usr/local/sbin:/usr/sbin:/sbin:{os.environ['PATH']}"
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*(in_netns(self._netns) if self._netns else ("unshare", "--net")), *command],
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": path},
            )

    def _end(self, sign: signal.Signals) -> None:
        if self._dockerd is not None:
            self._dockerd.send_signal(sign)
            self._dockerd.wait(60)
            self._dockerd = None

    def _answers(self) -> bool:
        try:
            client = self.client()
            client.ping()
            client.close()
        except docker.errors.DockerException:
            return False
        return True

    def _arguments(self) -> list[str]:
        return [
            "dockerd",
            f"--host=unix://{self.socket}",
            f"--containerd={self.folder / 'containerd.sock'}",
            f"--data-root={self.folder / 'data'}",
            f"--exec-root={self.folder / 'exec'}",
            f"--pidfile={self.folder / 'dockerd.pid'}",
            f"--config-file={self.folder / 'daemon.json'}",
            "--bridge=none",
            *(() if self._netns else ("--iptables=false", "--ip-forward=false")),
            "--live-restore",
        ]

    def _install_hook(self) -> None:
        self.hooked.mkdir()
        hook = self.folder / "bin" / "nvidia-container-runtime-hook"
        hook.parent.mkdir()
        hook.write_text(HOOK.format(python=sys.executable, folder=str(self.hooked)))
        hook.chmod(0o755)
