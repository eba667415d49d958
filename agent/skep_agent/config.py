"""How an agent is run: what the command line, or a test, says."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from skep_agent.core.checks import Limits

DEFAULT_STATE = Path("/var/lib/skep-agent")
DEFAULT_PORTS = (20000, 29999)
NO_ADDRESS = "127.0.0.1"  # of a machine without a route
_SIOCGIFCONF = 0x8912


class AddressFound(Exception):
    """The machine has an address by now, which it had not when the agent began."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"this machine has the address {address} by now, which other nodes need: start again"
        )


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Percents of the disk: above `high` images are removed until it is at `low`; 0: never."""

    high: int = 85
    low: int = 80

    @property
    def problem(self) -> str:
        """Why these are none; "" where they are."""
        good = self.high == 0 or 0 < self.low < self.high < 100
        return "" if good else "the low one is between 0 and the high one, and that below 100"


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """`state` must hold a credential (see `join`). Sizes that are None are the machine's."""

    state: Path
    runtime: Literal["docker", "mock"] = "docker"
    simulated_gpus: int | None = None  # None: the GPUs that NVML finds
    gpu_model: str = "Simulated-GPU"
    gpu_memory_mb: int = 81920
    address: str = ""  # "": the one this machine uses towards the server
    port_range: tuple[int, int] = DEFAULT_PORTS  # inclusive
    labels: dict[str, str] = field(default_factory=dict)
    cpus: float | None = None
    memory_mb: int | None = None
    # "off": containers run without rules of what they reach, and gangs stay on one node.
    fence: Literal["required", "off"] = "required"
    registries: str = ""  # that images may come from, see registry_policy; "": public ones
    image_cache: Watermarks = Watermarks()
    storage_roots: tuple[str, ...] = ()  # below which host paths may be mounted into tasks
    nfs_servers: tuple[str, ...] = ()  # that storages may be mounted from; (): any
    s3_endpoints: tuple[str, ...] = ()  # object stores that may be used; (): any
    gpu_check: str = ""  # a command that checks one GPU, see shell.checks
    metrics: tuple[str, int] | None = None  # address and port where Prometheus reads
    inventory_interval_s: float = 5.0
    containers_interval_s: float = 60.0
    network_interval_s: float = 10.0
    scratch_interval_s: float = 300.0
    reconnect_max_s: float = 15.0
    validate: bool = False  # check every invariant after every event

    def limits(self) -> Limits:
        return Limits(
            cpus=self.cpus or float(os.cpu_count() or 1),
            memory_mb=self.memory_mb or machine_memory_mb(),
            port_range=self.port_range,
        )

    def check_address(self, reported: str, server: str) -> None:
        """Raise AddressFound where the machine had no address when the agent reported one, and has
        one now: an agent may begin before its machine has a network or name servers."""
        if reported != NO_ADDRESS or urlsplit(server).hostname in (NO_ADDRESS, "localhost"):
            return
        found = self.address or own_address(server)
        if found != NO_ADDRESS:
            raise AddressFound(found)


@cache
def agent_version() -> str:
    """Return the version of this agent, for which a file is read and parsed."""
    return version("skep")


def machine_versions(gpus: dict[str, str]) -> dict[str, str]:
    """Return the versions of the kernel, of the firmware of InfiniBand adapters, and those that are
    known of GPUs."""
    found = {"kernel": os.uname().release, **gpus}
    for path in sorted(Path("/sys/class/infiniband").glob("*/fw_ver")):
        with suppress(OSError):
            found.setdefault("infiniband", path.read_text().strip()[:64])
    return found


LOOPBACK = socket.inet_aton(NO_ADDRESS)


def machine_memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


def interface_of(address: str) -> str:
    """The network interface of this machine that has the IPv4 address; "" when none has. All
    addresses of 127.0.0.0/8 are those of the loopback interface."""
    try:
        wanted = socket.inet_aton(socket.gethostbyname(address))
    except OSError:
        return ""
    if wanted[0] == LOOPBACK[0]:
        wanted = LOOPBACK
    return next((name for name, has in interfaces() if has == wanted), "")


def own_address(server: str) -> str:
    """This machine's address as the server's network sees it; loopback when there is no route."""
    url = urlsplit(server)
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(url.hostname, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, target = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)  # of a datagram socket: no packet is sent
            return str(probe.getsockname()[0])
    except OSError:
        return NO_ADDRESS


def address_of(text: str) -> str:
    """Return the IP address that the text is or names; "" for "". Raises OSError."""
    try:
        return str(ip_address(text)) if text else ""
    except ValueError:
        found = socket.getaddrinfo(text, None, type=socket.SOCK_DGRAM)
        return str(sorted(found, key=lambda entry: entry[0] != socket.AF_INET)[0][4][0])


def interfaces() -> list[tuple[str, bytes]]:
    """Names and IPv4 addresses, one pair for each address: SIOCGIFCONF, see netdevice(7)."""
    buffer_bytes, entry_bytes, name_bytes, address_at = 64 * 1024, 40, 16, 20
    buffer = array.array("B", bytes(buffer_bytes))
    request = struct.pack("iL", buffer_bytes, buffer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFCONF, request)
    filled = bytes(buffer)[: struct.unpack("iL", answer)[0]]
    entries = (filled[at : at + entry_bytes] for at in range(0, len(filled), entry_bytes))
    return [
        # A second address of an interface is listed as "eth0:1".
        (e[:name_bytes].split(b"\0")[0].decode().split(":")[0], e[address_at : address_at + 4])
        for e in entries
    ]
