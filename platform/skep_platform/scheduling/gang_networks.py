"""Subnets and network identifiers of gangs over several nodes.

A gang gets a block of addresses out of SKEP_GANG_POOL, as large as it needs, at a random place: so
blocks that were just given back rest a while, and one question finds room for a group of gangs.
Blocks of more than SMALL addresses come out of the upper half, where small ones do not scatter.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.backends.postgresql.psycopg_any import NumericRange

from skep_platform.jobs.containers.gang import Block
from skep_platform.jobs.models import GangNetwork, Job

UNIT = 8  # addresses; each VNI stands for one
SMALL = 256
PROBES = 32


class NoNetwork(Exception):
    """The gang cannot have a network now."""


def size_of(tasks: int, nodes: int) -> int:
    """Addresses of a block, a power of two: the first and the last one are nobody's."""
    return max(UNIT, 1 << (tasks + nodes + 1).bit_length())


def take(gangs: Sequence[tuple[Job, int, int, int]]) -> Mapping[UUID, Block]:
    """Networks for gangs, given as (job, number of its attempt, tasks, nodes), by job. Two
    queries. Raises NoNetwork when there is no room for one of them."""
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
