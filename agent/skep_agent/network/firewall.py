"""Keeps the rules of `rules.py` in the node's kernel, and says when it cannot.

The program `nft` is asked, with fixed arguments and a script on its input: the kernel applies a
script as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.network import names, vxlan
from skep_agent.network.rules import Egress, script
from skep_agent.protocol import NetworkPolicy

NFT_S = 20.0
# systemd-resolved lists the real name servers in a file of its own.
RESOLV_CONF = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
# With them the kernel shows frames within a bridge to the rules, too: lonely tasks share one.
BRIDGED = tuple(
    Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}") for name in ("iptables", "ip6tables")
)
_TABLE = re.compile(r"^table inet (skep_[0-9a-f]{6})$", re.MULTILINE)

log = structlog.get_logger(__name__)
_NETLINK_NETFILTER = 12
# linux/netfilter/nf_tables.h, in the subsystem NFNL_SUBSYS_NFTABLES (10).
_NEW_GENERATION, _GET_GENERATION = 10 << 8 | 15, 10 << 8 | 16
_GENERATION_ID = 1  # NFTA_GEN_ID
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_FAMILY = struct.Struct("=BBH")  # struct nfgenmsg
_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr
KERNEL_TIMEOUT_S = 1.0


def unavailable(problem: str) -> RuntimeFailure:
    """The failure of everything that needs a network while there is none."""
    return RuntimeFailure("network_unavailable", f"This node cannot isolate tasks: {problem}.")


class Firewall:
    """The rules for all bridges of one cluster on this machine. Agents of one cluster that share a
    machine share them, too, and write the same."""

    def __init__(self, cluster: str, server: str = "") -> None:
        """Prepare the rules of a cluster. `server` is the control plane's address as a URL, which
        is closed to tasks."""
        self._cluster = cluster
        self._server = server
        self._policy = NetworkPolicy()
        self._written = ""  # the table as the kernel listed it just after we wrote it
        self._seen_at: int | None = None  # generation of the kernel's rules when it was as written
        self._changed = False  # since the table was written
        self._resolvers: list[str] = []  # the name servers that were written
        self._lock = asyncio.Lock()

    async def ensure(self) -> None:
        """Return when the rules are in force. Raises RuntimeFailure "network_unavailable"."""
        async with self._lock:
            _show_bridged_frames()
            # The machine may get its name servers after the agent began, or others.
            if self._changed or not self._written or self._resolvers != _resolvers():
                await self._write()
            elif not await self._stands():
                log.warning("network_rules_restored", table=names.table(self._cluster))
                await self._write()

    def use(self, policy: NetworkPolicy) -> None:
        """Set the policy, for which the next ensure() writes the rules."""
        if policy != self._policy:
            self._policy, self._changed = policy, True

    async def renew(self) -> None:
        """Write the rules anew: the peers of a gang changed. Raises RuntimeFailure
        "network_unavailable"."""
        self._changed = True
        await self.ensure()

    async def leave(self) -> None:
        """Take the rules away where no bridge is left that they are for. Another agent of the
        cluster here writes them again before it starts anything."""
        prefix = names.prefix(self._cluster)
        async with self._lock:
            if any(name.startswith(prefix) for _, name in socket.if_nameindex()):
                return
            self._written = ""
            with suppress(RuntimeFailure):
                await delete_table(names.table(self._cluster))

    async def _write(self) -> None:
        # A policy that comes meanwhile is for the next time; where this fails, all of it is.
        self._changed, self._written, self._resolvers = False, "", _resolvers()
        egress = await asyncio.to_thread(self._egress)
        try:
            peers = await asyncio.to_thread(vxlan.peers, names.prefix(self._cluster))
        except vxlan.LinkError as error:
            raise unavailable(str(error)) from None
        await _nft(script(self._cluster, egress, peers))
        # Read before the listing, here and below: a change that comes between them raises it.
        self._seen_at = rules_generation()
        self._written = await self._listed()

    async def _stands(self) -> bool:
        """Return whether the table is as it was written. Each start of a container asks."""
        generation = rules_generation()
        if generation is not None and generation == self._seen_at:
            return True
        if await self._listed() != self._written:
            return False
        self._seen_at = generation
        return True

    async def _listed(self) -> str:
        """The table as it is; "" when it is not there."""
        try:
            listing = await _nft(f"list table inet {names.table(self._cluster)}\n")
        except RuntimeFailure:
            return ""
        return _in_one_order(listing)

    def _egress(self) -> Egress:
        control_plane = _addresses(urlsplit(self._server).hostname or "")
        try:
            return Egress.of(self._policy, control_plane, self._resolvers)
        except ValueError as error:
            # What cannot be read opens nothing; what is closed without it stays closed.
            log.error("network_policy_invalid", problem=str(error)[:200])
            return Egress.of(NetworkPolicy(), control_plane, self._resolvers)


async def tables() -> list[str]:
    """Return the names of all tables of agents in this network namespace. Raises RuntimeFailure
    "network_unavailable"."""
    return _TABLE.findall(await _nft("list tables inet\n"))


async def delete_table(table: str) -> None:
    """Raises RuntimeFailure "network_unavailable", also when it is not there."""
    await _nft(f"delete table inet {table}\n")


async def _nft(commands: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *("nft", "--file", "-"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise unavailable(f"the program nft (nftables) does not start: {error.strerror}") from None
    try:
        out, problem = await asyncio.wait_for(process.communicate(commands.encode()), NFT_S)
    except TimeoutError:
        process.kill()
        raise unavailable(f"nft did not end within {NFT_S:g} s") from None
    if process.returncode:
        first = problem.decode(errors="replace").strip().splitlines()[:1] or ["no reason given"]
        raise unavailable(f"nft failed: {first[0][:200]}")
    return out.decode()


def _in_one_order(listing: str) -> str:
    """Sort the elements of each set: the kernel lists them in any order."""

    def ordered(match: re.Match[str]) -> str:
        return " ".join(sorted(part.strip() for part in match[1].split(",")))

    return re.sub(r"elements = \{([^}]*)\}", ordered, listing)


def _show_bridged_frames() -> None:
    for setting in BRIDGED:
        try:
            if setting.read_text().strip() != "1":
                setting.write_text("1\n")
        except FileNotFoundError:
            # The engine loads the module br_netfilter for a bridge on which containers shall not
            # reach each other, before that bridge is there.
            continue
        except OSError as error:
            raise unavailable(f"{setting} cannot be set to 1: {error.strerror}") from None


def _resolvers() -> list[str]:
    """Name servers that containers ask from their own network: not those on loopback."""
    lines = [line.split() for path in RESOLV_CONF if path.exists() for line in _lines(path)]
    found = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
    return [a for a in found if _is_ip(a) and not ip_address(a).is_loopback]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _addresses(host: str) -> Iterable[str]:
    """Those that the name has now; none when it has none."""
    try:
        found = socket.getaddrinfo(host, None, family=socket.AF_INET) if host else []
    except OSError:
        return []
    return {str(entry[4][0]) for entry in found}


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def rules_generation() -> int | None:
    """Return the generation of the rules in this network namespace; None when the kernel does not
    report it, so that the caller lists the rules themselves.

    The generation is a number that each change of any table raises. Asking for it is one short
    netlink exchange (0.1 ms), listing a table through `nft` a process of some 5 to 10 ms: as long
    as the number stands, a table that was seen does, too.
    """
    size = _HEADER.size + _FAMILY.size
    request = _HEADER.pack(size, _GET_GENERATION, _NLM_F_REQUEST, 0, 0) + _FAMILY.pack(0, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as kernel:
            kernel.settimeout(KERNEL_TIMEOUT_S)
            kernel.bind((0, 0))
            kernel.send(request)
            return _generation(kernel.recv(4096))
    except (OSError, struct.error):
        return None


def _generation(answer: bytes) -> int | None:
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _NEW_GENERATION:
        return None
    at = _HEADER.size + _FAMILY.size
    while at + _ATTRIBUTE.size <= len(answer):
        size, attribute = _ATTRIBUTE.unpack_from(answer, at)
        if attribute == _GENERATION_ID:
            return struct.unpack_from("!I", answer, at + _ATTRIBUTE.size)[0]
        at += max(size + 3 & ~3, _ATTRIBUTE.size)  # padded to four bytes
    return None
