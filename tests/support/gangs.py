"""Networks of gangs, as the server plans them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from tests.support.docker_tasks import make_spec

from skep_agent.protocol import AttemptSpec, GangNetwork, GangNode

POOL = IPv4Network("100.64.0.0/10")
SIZE = 16


def make_gang(nodes: Mapping[str, str], tasks: int = 1) -> GangNetwork:
    """`nodes`: addresses by name; each gets so many tasks, named worker-0 and up over all nodes.
    The network is at a random place, as other tests of this machine have some, too."""
    block = random.randrange(POOL.num_addresses // SIZE)
    start = POOL.network_address + block * SIZE
    addresses = iter(range(1, SIZE - 1))
    found, number = [], 0
    for name, address in nodes.items():
        mine = {}
        for _ in range(tasks):
            mine[f"worker-{number}"] = str(start + next(addresses))
            number += 1
        found.append(GangNode(name=name, address=address, gateway="", tasks=mine))
    with_gateways = [
        node.model_copy(update={"gateway": str(start + next(addresses))}) for node in found
    ]
    return GangNetwork(vni=1 + block, subnet=f"{start}/28", nodes=with_gateways)


def gang_spec(
    gang: GangNetwork, hostname: str, image: str, command: str, **fields: Any
) -> AttemptSpec:
    job = str(uuid.UUID(int=gang.vni))
    known = {"job_id": job, "network": "gang", "gang": gang, "hostname": hostname}
    return make_spec(image, command, **known | fields)
