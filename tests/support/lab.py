"""Two machines and a network between them, on this one: a namespace each, with an engine and an
agent's runtime in it.

    wire    10.77.0.254 (control plane), 203.0.113.7 (the internet), 10.88.0.5 (a private service),
            169.254.169.253 (metadata, beyond the node)
    a, b    10.77.0.1 and .2, and 169.254.169.254 on their loopback
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.support.docker_daemon import Daemon, in_netns
from tests.support.docker_images import import_busybox

from skep_agent.network import names
from skep_agent.protocol import AttemptSpec, NetworkPolicy

ROOT = Path(__file__).parents[2]
IMAGE = "skep-test/lab:1"
CONTROL_PLANE, INTERNET, PRIVATE = "10.77.0.254", "203.0.113.7", "10.88.0.5"
METADATA, FAR_METADATA = "169.254.169.254", "169.254.169.253"
PORT = 8080  # where something listens at each of these addresses


class Machine:
    """A namespace. `hear` starts something that answers "reached" at PORT of every address."""

    def __init__(self, name: str) -> None:
        self.netns = f"skl-{name}-{uuid.uuid4().hex[:6]}"
        self._children: list[subprocess.Popen[str]] = []
        sh("ip", "netns", "add", self.netns)
        self.sh("ip", "link", "set", "lo", "up")

    def sh(self, *command: str, check: bool = True) -> str:
        return sh(*in_netns(self.netns), *command, check=check)

    def hear(self) -> None:
        listener = self.spawn(sys.executable, "-m", "tests.support.lab_listener", str(PORT))
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listening\n"

    def spawn(self, *command: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [*in_netns(self.netns), *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._children.append(child)
        return child

    def close(self) -> None:
        for child in self._children:
            child.terminate()
            child.wait(30)
        sh("ip", "netns", "del", self.netns, check=False)


class LabNode(Machine):
    """A machine with an engine and the runtime of an agent, which lives in a process of its own."""

    def __init__(self, cluster: str, name: str, number: int, wire: Machine, mtu: int) -> None:
        super().__init__(name)
        self.cluster, self.name, self.address = cluster, name, f"10.77.0.{number}"
        end = f"skl{uuid.uuid4().hex[:8]}"
        sh("ip", "link", "add", end, "type", "veth", "peer", "name", f"{end}w")
        sh("ip", "link", "set", f"{end}w", "netns", wire.netns)
        wire.sh("ip", "link", "set", f"{end}w", "mtu", str(mtu), "master", "wire", "up")
        sh("ip", "link", "set", end, "netns", self.netns)
        self.sh("ip", "link", "set", end, "name", "eth0", "mtu", str(mtu))
        self.sh("ip", "link", "set", "eth0", "up")
        self.sh("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.sh("ip", "route", "add", "default", "via", CONTROL_PLANE)
        self.sh("ip", "addr", "add", f"{METADATA}/32", "dev", "lo")
        # Not pytest's folder: the path of a unix socket has to be short.
        self._folder = Path(tempfile.mkdtemp(prefix="skepd-", dir="/tmp"))
        self._daemon = Daemon(self._folder, self.netns)
        self._daemon.start()
        self.engine = self._daemon.client()
        self._runtime: subprocess.Popen[str] | None = None

    def start_runtime(self, *, fenced: bool = True) -> None:
        """Another one than before, as after a restart of the agent."""
        if self._runtime is not None:
            assert self._runtime.stdin is not None
            self._runtime.stdin.close()
            self._runtime.wait(30)
        what = {
            "cluster": self.cluster,
            "name": self.name,
            "address": self.address,
            "socket": str(self._daemon.socket),
            "server": f"https://{CONTROL_PLANE}" if fenced else "",
        }
        self._runtime = self.spawn(
            sys.executable, "-m", "tests.support.lab_runtime", json.dumps(what)
        )

    def ask(self, what: str, **arguments: object) -> Any:
        """Raises RuntimeError with "code: message"."""
        runtime = self._runtime
        assert runtime is not None
        assert runtime.stdin is not None
        assert runtime.stdout is not None
        runtime.stdin.write(json.dumps([what, arguments]) + "\n")
        runtime.stdin.flush()
        answer = json.loads(runtime.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["is"]

    def run(self, spec: AttemptSpec) -> LabTask:
        container_id = self.ask("create", spec=spec.model_dump())
        self.ask("start", container_id=container_id)
        return LabTask(self, container_id)

    def use(self, policy: NetworkPolicy) -> None:
        self.ask("use_policy", policy=policy.model_dump())

    def close(self) -> None:
        for container in self.engine.containers.list(all=True):
            container.remove(force=True, v=True)
        self.engine.close()
        self._daemon.stop()
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)


class LabTask:
    """A container that runs."""

    def __init__(self, node: LabNode, container_id: str) -> None:
        self.node, self.container_id = node, container_id
        self._container = node.engine.containers.get(container_id)

    @property
    def address(self) -> str:
        self._container.reload()
        networks = self._container.attrs["NetworkSettings"]["Networks"]
        return next(network["IPAddress"] for network in networks.values())

    @property
    def network(self) -> tuple[str, ...]:
        """Before a command of the machine: it runs in the network of the container."""
        self._container.reload()
        return ("nsenter", f"--target={self._container.attrs['State']['Pid']}", "--net")

    def sh(self, script: str) -> str:
        """What it writes, both streams together."""
        return self._container.exec_run(["sh", "-c", script]).output.decode()

    def reaches(self, host: str) -> bool:
        return bool(self.reached([host]))

    def reached(self, hosts: Iterable[str]) -> list[str]:
        """Those of them that answer at PORT; all are tried at once."""
        tries = "".join(f"(nc -w 2 {h} {PORT} </dev/null | sed 's/$/ {h}/') & " for h in hosts)
        return [
            line.split()[1]
            for line in self.sh(f"{tries} wait").splitlines()
            if line[:7] == "reached"
        ]

    def in_its_network(self, *command: str) -> None:
        """A command of the machine, in the network of the container."""
        sh(*self.network, *command)

    def pings(self) -> int:
        """That came in."""
        lines = [line for line in self.sh("cat /proc/net/snmp").splitlines() if "Icmp:" in line]
        names, values = (line.split() for line in lines[:2])
        return int(values[names.index("InEchos")])

    def remove(self) -> None:
        self.node.ask("remove", container_id=self.container_id)


class Lab:
    def __init__(self, mtu: int = 1500) -> None:
        self.cluster = f"test-{uuid.uuid4().hex[:12]}"
        self._closing: list[Callable[[], object]] = []
        try:
            self.wire = self._keep(Machine("wire"))
            self.wire.sh("ip", "link", "add", "wire", "type", "bridge")
            self.wire.sh("ip", "link", "set", "wire", "up")
            for address in (f"{CONTROL_PLANE}/24", f"{INTERNET}/32", f"{PRIVATE}/32"):
                self.wire.sh("ip", "addr", "add", address, "dev", "wire")
            self.wire.sh("ip", "addr", "add", f"{FAR_METADATA}/32", "dev", "wire")
            make = [
                self._keep(LabNode(self.cluster, name, number, self.wire, mtu))
                for number, name in enumerate(("a", "b"), start=1)
            ]
            self.a, self.b = make
            for node in make:
                import_busybox(node.engine, IMAGE)
            for machine in (self.wire, *make):
                machine.hear()
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> dict[str, str]:
        """Of the nodes, by name."""
        return {node.name: node.address for node in (self.a, self.b)}

    @property
    def table(self) -> str:
        return names.table(self.cluster)

    def close(self) -> None:
        for close in reversed(self._closing):
            close()

    def _keep(self, machine):
        self._closing.append(machine.close)
        return machine


def sh(*command: str, check: bool = True) -> str:
    path = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False
    )
    if check and done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    return done.stdout


def within(seconds: float, condition: Callable[[], object]) -> bool:
    """Whether it comes true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return bool(found)
