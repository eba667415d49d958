"""Networks of gangs: their kind, the ports of their tasks, and the subnets of those over several
nodes.

A gang over several nodes gets a block of addresses out of SKEP_GANG_POOL, as large as it needs, at
a random place: so blocks that were just given back rest a while, and one query finds blocks for a
group of gangs. Blocks of more than SMALL addresses come out of the upper half, where small ones do
not scatter.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network
from itertools import chain, islice
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.backends.postgresql.psycopg_any import NumericRange

from skep_platform.jobs.containers.environment import own_ports, ports_wanted
from skep_platform.jobs.containers.gang import Block
from skep_platform.jobs.models import GangNetwork, Job
from skep_scheduler.model import TaskPlacement

# Networks of a gang's tasks, see docs/network.md.
ISOLATED, JOB, GANG, HOST = "isolated", "job", "gang", "host"


class PortsExhausted(Exception):
    """A node has not enough free ports for the gang."""


class PortRange:
    """A node's ports for tasks, both ends included; those in `held` are taken. Where the search
    begins differs by `seed`, so that a port that was just given back rests a while."""

    def __init__(self, first: int, last: int, seed: int = 0) -> None:
        self.held: set[int] = set()
        size = max(last - first + 1, 0)
        start = seed % size if size else 0
        self._candidates = chain(range(first + start, last + 1), range(first, first + start))

    def take(self, count: int) -> list[int]:
        """Raises PortsExhausted."""
        free = (port for port in self._candidates if port not in self.held)
        found = list(islice(free, count))
        if len(found) < count:
            raise PortsExhausted("A node has not enough free ports for the gang.")
        return found


def network_of(job: Job, tasks: Iterable[TaskPlacement]) -> str:
    """Return the kind of network of a gang. The nodes' own where its owner wants it; else a task
    that starts alone is isolated, tasks
    on one node get a bridge, and over nodes a network of the gang."""
    if job.network_mode == "host":
        return HOST
    if job.tasks_total == 1 or job.incremental:
        return ISOLATED
    return JOB if len({task.node for task in tasks}) == 1 else GANG


def choose_ports(
    network: str, wanted: Mapping[str, int], rank: int, node: PortRange
) -> dict[str, list[int]]:
    """Return the ports of one task by label. Raises PortsExhausted."""
    labels = ports_wanted(wanted, rank)
    if network != HOST:
        return own_ports(labels)
    return {label: node.take(count) for label, count in labels.items()}


UNIT = 8  # addresses; each VNI stands for one
SMALL = 256
PROBES = 32


class NoNetwork(Exception):
    """The gang cannot have a network now."""


def size_of(tasks: int, nodes: int) -> int:
    """Return the addresses of a block, a power of two: the first and the last one stay unused."""
    return max(UNIT, 1 << (tasks + nodes + 1).bit_length())


def take(gangs: Sequence[tuple[Job, int, int, int]]) -> Mapping[UUID, Block]:
    """Return networks by job, for gangs given as (job, number of its attempt, tasks, nodes). Two
    queries. Raises NoNetwork when no block is free for one of them."""
    if not gangs:
        return {}
    pool = IPv4Network(settings.SKEP_GANG_POOL)
    first = int(pool.network_address)
    sizes = [size_of(tasks, nodes) for _, _, tasks, nodes in gangs]
    free = _free(
        [(n, start, size) for n, size in enumerate(sizes) for start in _places(pool, size)]
    )
    blocks: dict[UUID, Block] = {}
    rows = []
    for n, (job, attempt, tasks, _) in enumerate(gangs):
        start = _first_beside(free.get(n, ()), sizes[n], blocks.values())
        if start is None:
            raise NoNetwork(
                f"No subnet with {sizes[n]} addresses is left for its network; enlarge "
                f"SKEP_GANG_POOL ({pool})."
            )
        blocks[job.pk] = Block(start, sizes[n], tasks)
        addresses = NumericRange(start, start + sizes[n])
        vni = 1 + (start - first) // UNIT
        rows.append(GangNetwork(job=job, index=attempt, vni=vni, addresses=addresses))
    GangNetwork.objects.bulk_create(rows)
    return blocks


def _places(pool: IPv4Network, size: int) -> list[int]:
    """Starts of blocks to try."""
    slots = pool.num_addresses // size
    low, high = (0, (slots + 1) // 2) if size <= SMALL else (slots // 2, slots)
    tried = random.sample(range(low, high), min(PROBES, high - low))
    return [int(pool.network_address) + slot * size for slot in tried]


def _free(candidates: Sequence[tuple[int, int, int]]) -> dict[int, list[int]]:
    """Starts of those (number, start, size) that no live gang has a part of, by number."""
    found: dict[int, list[int]] = {}
    if not candidates:
        return found
    with connection.cursor() as cursor:
        cursor.execute(FREE, [list(column) for column in zip(*candidates, strict=True)])
        for number, start in cursor.fetchall():
            found.setdefault(number, []).append(start)
    return found


FREE = """
SELECT number, start FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) AS c (number, start, size)
 WHERE NOT EXISTS (SELECT 1 FROM jobs_gangnetwork g
                    WHERE g.addresses && int8range(c.start, c.start + c.size))
"""


def _first_beside(starts: Sequence[int], size: int, blocks: Iterable[Block]) -> int | None:
    taken = [(b.start, b.start + b.size) for b in blocks]
    for start in starts:
        if all(start + size <= first or last <= start for first, last in taken):
            return start
    return None
