"""In which order agents are let in when many connect at once."""

from __future__ import annotations

import asyncio
import random

from skep_platform.gateway.agent import Admission


async def test_finding_c3_those_whose_lease_ends_first_are_let_in_first() -> None:
    admission = Admission(2)
    inside, most, order = 0, 0, []
    first = asyncio.Event()

    async def agent(lease_end: float) -> None:
        nonlocal inside, most
        async with admission.turn(lease_end):
            inside += 1
            most = max(most, inside)
            order.append(lease_end)
            await (first.wait() if len(order) <= 2 else asyncio.sleep(0))
            inside -= 1

    ends = [float(n) for n in range(200)]
    random.Random(1).shuffle(ends)
    agents = [asyncio.ensure_future(agent(end)) for end in ends]
    await asyncio.sleep(0)
    first.set()
    await asyncio.gather(*agents)
    assert most == 2
    assert order[2:] == sorted(order[2:]), "the first two found no one before them"


async def test_finding_c3_an_agent_that_gives_up_waiting_holds_no_one_up() -> None:
    admission = Admission(1)
    entered: list[str] = []

    async def agent(name: str, lease_end: float) -> None:
        async with admission.turn(lease_end):
            entered.append(name)
            await asyncio.sleep(0.01)

    holder = asyncio.ensure_future(agent("holder", 0))
    await asyncio.sleep(0)
    gone = [asyncio.ensure_future(agent("gone", n)) for n in range(5)]
    patient = asyncio.ensure_future(agent("patient", 99))
    await asyncio.sleep(0)
    for each in gone:
        each.cancel()
    await asyncio.gather(holder, patient)
    assert entered == ["holder", "patient"]
