"""What the person asked for: nodes, GPUs, address."""

from __future__ import annotations

import argparse
import ctypes
import socket
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 8470
SIMULATED_MODEL = "NVIDIA A100-SXM4-80GB"
SIMULATED_GPUS = 8
# A node with simulated GPUs offers what such a machine has, so that real job files fit: the tasks
# share what is really there.
SIMULATED_CPUS = 96
SIMULATED_MEMORY_MB = 1024 * 1024
EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104
PORTS = range(20000, 30000)  # handed to tasks; each node has a part of its own


@dataclass(frozen=True, slots=True)
class Options:
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    gateway_port: int = 0  # 0: the next one after `port`
    apps_port: int = 0  # 0: the next one after the gateway's
    metrics_port: int = 0  # 0: no metrics; else the first of those of all processes
    nodes: int = 1
    gpus: int | None = None  # simulated GPUs per node; None: the machine's own
    gpu_model: str = SIMULATED_MODEL
    runtime: str = "docker"
    detach: bool = False
    wal_archive: Path | None = None  # where PostgreSQL copies its write-ahead log

    @property
    def url(self) -> str:
        """Where people of this machine reach it, whatever address it listens on."""
        host = "127.0.0.1" if self.host in EVERY_ADDRESS else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def agents_port(self) -> int:
        """Where the gateway listens."""
        return self.gateway_port or self.port + 1

    @property
    def proxy_port(self) -> int:
        """Where the proxy of apps listens."""
        return self.apps_port or self.agents_port + 1

    @property
    def gateway_url(self) -> str:
        """Return the address where agents of this machine connect."""
        return self.url.removesuffix(f":{self.port}") + f":{self.agents_port}"

    def metrics_address(self, process: int) -> str:
        """Return where the process of this number, from 0, serves its metrics; "" for nowhere."""
        return f"127.0.0.1:{self.metrics_port + process}" if self.metrics_port else ""

    def names(self) -> list[str]:
        """More names that it is called by, where it listens on every address: the machine's."""
        if self.host not in EVERY_ADDRESS:
            return []
        from skep_agent.config import own_address

        return [socket.gethostname(), socket.getfqdn(), own_address("http://192.0.2.1")]

    def node_names(self) -> list[str]:
        return [f"node-{number}" for number in range(1, self.nodes + 1)]

    def port_range(self, node: int) -> tuple[int, int]:
        """Return the first and the last port of the node of this number, from 0."""
        share = len(PORTS) // max(self.nodes, 1)
        first = PORTS.start + node * share
        return first, first + share - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; :: is all of IPv4 and IPv6"
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    parser.add_argument(
        "--gateway-port", type=int, default=0, help="where agents connect (default: --port plus 1)"
    )
    parser.add_argument(
        "--apps-port",
        type=int,
        default=0,
        help="where browsers reach apps of jobs (default: --gateway-port plus 1)",
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        default=0,
        metavar="PORT",
        help="serve metrics for Prometheus at this port of the loopback and the next ones: of web "
        "server, gateway, apps, both workers and each agent (default: none)",
    )
    parser.add_argument("--nodes", type=int, default=1, help="local agents to run")
    parser.add_argument("--no-agents", action="store_true", help="the control plane alone")
    parser.add_argument("--gpus", type=int, help="simulated GPUs per node (default: real ones)")
    parser.add_argument("--gpu-model", default=SIMULATED_MODEL, help="what simulated GPUs are")
    parser.add_argument("--runtime", choices=("docker", "mock"), default="docker")
    parser.add_argument(
        "--wal-archive",
        type=Path,
        metavar="DIR",
        help="copy PostgreSQL's write-ahead log there, to restore the database as of any point in "
        "time (default: none)",
    )
    parser.add_argument("--detach", "-d", action="store_true", help="leave it in the background")


def from_arguments(given: argparse.Namespace) -> Options:
    """GPUs are simulated where they were asked for, where several nodes would share the real ones,
    and where there is no NVIDIA driver."""
    gpus = given.gpus
    if gpus is None and (given.nodes > 1 or given.runtime == "mock" or not nvidia_driver()):
        gpus = SIMULATED_GPUS
    return Options(
        host=given.host,
        port=given.port,
        gateway_port=given.gateway_port,
        apps_port=given.apps_port,
        metrics_port=given.metrics_port,
        nodes=0 if given.no_agents else given.nodes,
        gpus=gpus,
        gpu_model=given.gpu_model,
        runtime=given.runtime,
        detach=given.detach,
        wal_archive=given.wal_archive and given.wal_archive.absolute(),
    )


def nvidia_driver() -> bool:
    """Whether NVML, the driver's library, can be loaded here."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True
