"""A fake control plane and one mock node, both in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.agent_process import AgentProcess, config_for
from tests.support.agent_server import FakeControlPlane


@pytest.fixture
async def server() -> AsyncIterator[FakeControlPlane]:
    async with FakeControlPlane().running() as server:
        yield server


@pytest.fixture
async def agent(server: FakeControlPlane, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    """Running, and connected."""
    async with AgentProcess(config_for(tmp_path / "n1", server.url)).running() as agent:
        await server.until(lambda: server.node().socket)
        yield agent
