"""Two machines, two tenants: what may talk does, everything else does not."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from tests.support.docker_tasks import make_spec
from tests.support.gangs import gang_spec, make_gang
from tests.support.lab import (
    CONTROL_PLANE,
    FAR_METADATA,
    IMAGE,
    INTERNET,
    METADATA,
    PORT,
    PRIVATE,
    Lab,
    LabTask,
    within,
)

from skep_agent.network.vxlan import hardware_address
from skep_agent.protocol import VXLAN_PORT, GangNetwork, NetworkPolicy

pytestmark = pytest.mark.docker

SERVE = f"while :; do echo reached | nc -l -p {PORT}; done"
MTU = 1400


@dataclass
class World:
    lab: Lab
    gang: GangNetwork
    a: LabTask  # of the gang, on each node
    b: LabTask
    other: GangNetwork
    other_a: LabTask  # of another tenant's gang
    other_b: LabTask
    lonely: LabTask  # on node a, as all that follow
    lonely_too: LabTask
    job: LabTask


@pytest.fixture(scope="module")
def world(docker_engine) -> Iterator[World]:
    lab = Lab(mtu=MTU)
    try:
        lab.a.start_runtime()
        lab.b.start_runtime()
        gang, other = make_gang(lab.addresses), make_gang(lab.addresses)
        tasks = [
            node.run(gang_spec(network, f"worker-{n}", IMAGE, SERVE))
            for network in (gang, other)
            for n, node in enumerate((lab.a, lab.b))
        ]
        alone = [lab.a.run(make_spec(IMAGE, SERVE)) for _ in range(2)]
        job = lab.a.run(make_spec(IMAGE, SERVE, network="job", hostname="worker-0"))
        yield World(lab, gang, tasks[0], tasks[1], other, *tasks[2:], *alone, job)
    finally:
        lab.close()


def test_finding_s5_a_gang_talks_over_both_nodes_by_name_and_by_address(world):
    assert world.a.reaches("worker-1")
    assert world.b.reaches("worker-0")
    assert world.a.reaches(world.b.address)
    assert world.b.reaches(world.a.address)
    assert "eth0" in world.a.sh("ip route")


def test_finding_s5_packets_larger_than_the_wire_takes_arrive_whole(world):
    sent = 4 * 1024 * 1024
    world.b.sh("(sleep 60 | nc -l -p 7000 | wc -c > /tmp/got) & sleep 0.2")
    world.a.sh(
        f"dd if=/dev/zero bs=65536 count={sent // 65536} 2>/dev/null | nc -w 10 worker-1 7000"
    )
    assert within(20, lambda: world.b.sh("cat /tmp/got").strip() == str(sent))
    assert world.a.sh("cat /sys/class/net/eth0/mtu") == f"{MTU - 50}\n"


@pytest.mark.parametrize("who", ["a", "b", "lonely", "job"])
def test_15_finding_s12_nothing_of_nodes_and_control_plane_is_reached(world, who):
    task = getattr(world, who)
    gateway = task.sh("ip route").split("default via ")[1].split()[0]
    closed = [
        *(gateway, world.lab.a.address, world.lab.b.address),
        *(METADATA, FAR_METADATA, CONTROL_PLANE, PRIVATE),
        *(node.gateway for node in world.gang.nodes),
        *(node.gateway for node in world.other.nodes),
    ]
    assert task.reached(closed) == []


def test_finding_s12_the_test_listens_at_all_of_these_addresses(world):
    """Else nothing could be reached anyway."""
    for machine, address in (
        (world.lab.a, METADATA),
        (world.lab.a, world.lab.a.address),
        (world.lab.a, world.lab.b.address),
        (world.lab.a, CONTROL_PLANE),
        (world.lab.a, PRIVATE),
        (world.lab.a, FAR_METADATA),
    ):
        assert "reached" in machine.sh("busybox", "nc", "-w", "2", address, str(PORT), check=False)


@pytest.mark.parametrize("who", ["a", "lonely", "job"])
def test_15_finding_s5_other_tenants_are_not_reached_on_this_node_nor_on_the_other(world, who):
    task = getattr(world, who)
    others = [world.other_a, world.other_b, world.lonely_too]
    others += [other for name, other in (("a", world.a), ("job", world.job)) if name != who]
    assert task.reached(other.address for other in others) == []


def test_finding_s12_the_internet_is_reached(world):
    for task in (world.a, world.b, world.lonely, world.job):
        assert task.reaches(INTERNET)


def test_finding_s12_private_services_are_reached_where_an_admin_lists_them(world):
    with policy(world, NetworkPolicy(allowed=["10.88.0.0/16"])):
        assert world.a.reaches(PRIVATE)
        assert world.lonely.reaches(PRIVATE)
    assert not world.a.reaches(PRIVATE)
    everything = NetworkPolicy(
        denied=[world.lab.a.address, world.lab.b.address],
        allowed=["10.0.0.0/8", "169.254.0.0/16", "100.64.0.0/10"],
    )
    with policy(world, everything):
        closed = [world.lab.b.address, CONTROL_PLANE, FAR_METADATA, METADATA]
        closed += [world.other_a.address, world.other_b.address]
        assert world.a.reached(closed) == []
    with policy(world, everything.model_copy(update={"allowed": [f"{CONTROL_PLANE}:{PORT}"]})):
        assert world.a.reaches(CONTROL_PLANE)


def test_finding_s5_packets_that_are_not_from_a_node_of_the_gang_do_not_get_in(world):
    """From another machine, and from a container, which has the address of its node outside."""
    send = sender(vxlan_ping(world.gang, world.a.address), world.lab.a.address)
    before = world.a.pings()
    world.lab.wire.sh(*send)
    world.other_b.in_its_network(*send)
    world.lonely.in_its_network(*send)
    # The same from a node of the gang comes in: the others stayed out for what they are.
    world.lab.b.sh(*send)
    assert within(10, lambda: world.a.pings() > before)
    assert world.a.pings() == before + 1


def test_finding_s12_flushed_rules_are_back_and_gangs_go_on(world):
    for node in (world.lab.a, world.lab.b):
        node.sh("nft", "flush", "table", "inet", world.lab.table)
        node.ask("ensure")
    assert world.a.reached([METADATA, world.lab.a.address, "worker-1"]) == ["worker-1"]


def test_finding_s5_an_agent_that_restarts_keeps_gangs_and_rules(world):
    world.lab.a.start_runtime()
    world.lab.a.ask("ensure")
    assert world.a.reaches("worker-1")
    assert world.b.reaches("worker-0")
    assert not world.b.reaches(world.other_a.address)


def test_finding_s5_nothing_is_left_of_a_gang_that_is_over(world):
    lab, gang = world.lab, make_gang(world.lab.addresses)
    tasks = [
        node.run(gang_spec(gang, f"worker-{n}", IMAGE, SERVE))
        for n, node in enumerate((lab.a, lab.b))
    ]
    devices = lab.a.sh("ip", "-o", "link")
    rules = lab.a.sh("nft", "list", "table", "inet", lab.table)
    assert f"{gang.vni:#x}" in rules
    for task in tasks:
        task.remove()
    after = lab.a.sh("ip", "-o", "link")
    assert len(after.splitlines()) < len(devices.splitlines())
    assert f"{gang.vni:#x}" not in lab.a.sh("nft", "list", "table", "inet", lab.table)
    assert f"vxlan id {gang.vni} " not in lab.a.sh("ip", "-d", "link")


@contextmanager
def policy(world: World, policy: NetworkPolicy) -> Iterator[None]:
    for node in (world.lab.a, world.lab.b):
        node.use(policy)
        node.ask("ensure")
    yield
    for node in (world.lab.a, world.lab.b):
        node.use(NetworkPolicy())
        node.ask("ensure")


def vxlan_ping(gang: GangNetwork, target: str) -> bytes:
    """An echo request of the gang's task on node b, as that node would wrap it."""
    source = gang.nodes[1].tasks["worker-1"]
    echo = _with_checksum(struct.pack(">BBHHH", 8, 0, 0, 1, 1), 2)
    addresses = b"".join(bytes(map(int, a.split("."))) for a in (source, target))
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(echo), 0, 0, 64, 1, 0) + addresses
    macs = [bytes.fromhex(hardware_address(a).replace(":", "")) for a in (target, source)]
    frame = b"".join(macs) + b"\x08\x00" + _with_checksum(head, 10) + echo
    return struct.pack(">II", 0x08000000, gang.vni << 8) + frame


def _with_checksum(data: bytes, at: int) -> bytes:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return data[:at] + struct.pack(">H", checksum) + data[at + 2 :]


def sender(packet: bytes, host: str) -> tuple[str, ...]:
    script = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        f"s.sendto(bytes.fromhex('{packet.hex()}'), ('{host}', {VXLAN_PORT}))"
    )
    return (sys.executable, "-c", script)
