"""What an agent says of itself while its main loop is busy."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.agent_process import AgentProcess
from tests.support.agent_server import FakeControlPlane

from skep_agent.shell import link


async def test_finding_c2_a_busy_agent_does_not_say_that_it_holds_nothing_new(
    server: FakeControlPlane, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Hello is then an older one: what began since must not count as forgotten."""
    node = server.node()
    assert node.hellos[-1].held == []
    assert node.hellos[-1].memory_id
    seen = len(node.hellos)

    async def busy(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(link, "HELLO_S", 0.1)
    monkeypatch.setattr(link, "_called", busy)
    await server.drop()
    await server.until(lambda: len(node.hellos) > seen)
    assert node.hellos[-1].held is None
    assert node.hellos[-1].inventory == node.hellos[0].inventory
