"""Where an agent connects: at the gateway that it was given, by the web address where it must."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.agent_process import AgentProcess, config_for
from tests.support.agent_server import FakeControlPlane
from tests.support.ports import free_port

from skep_agent import config
from skep_agent.config import AddressFound, AgentConfig
from skep_agent.join import accepted_gateway
from skep_agent.protocol import Hello
from skep_agent.shell.clock import Clock
from skep_agent.shell.lease_guard import NoGuard
from skep_agent.shell.link import Link
from skep_agent.shell.tasks import first_of
from skep_agent.statedir import Identity, StateDir

DEAD = "http://127.0.0.1:{}"


@pytest.mark.parametrize(
    ("server", "found", "accepted"),
    [
        ("http://box:8470", "http://box:8471", "http://box:8471"),
        ("https://skep.org", "https://agents.skep.org/", "https://agents.skep.org"),
        ("http://box:8470", "https://agents.skep.org", "https://agents.skep.org"),
        ("https://skep.org", "", ""),
        ("https://skep.org", "http://agents.skep.org", ""),
        ("https://skep.org", "ws://agents.skep.org", ""),
        ("https://skep.org", "//agents.skep.org", ""),
        ("http://box:8470", "file:///etc/passwd", ""),
        ("http://box:8470", "http://", ""),
    ],
)
def test_25_a_credential_given_over_tls_is_never_sent_without_it(server, found, accepted):
    assert accepted_gateway(server, found) == accepted


def joined(state: Path, server: str, gateway: str) -> AgentConfig:
    config = config_for(state, server)
    identity = StateDir(state).load()
    StateDir(state).save(replace(identity, gateway_url=gateway))
    return config


async def test_an_agent_connects_to_the_gateway_and_not_to_the_web_address(server, tmp_path):
    config = joined(tmp_path, DEAD.format(free_port()), server.url)
    async with AgentProcess(config).running():
        await server.until(lambda: server.node().inventory)


async def test_where_the_gateway_cannot_be_reached_the_web_address_is_tried(server, tmp_path):
    config = joined(tmp_path, server.url, DEAD.format(free_port()))
    async with AgentProcess(config).running():
        await server.until(lambda: server.node().inventory)


async def test_finding_s1_an_agent_from_before_the_gateway_moves_to_it_and_stays(server, tmp_path):
    other = FakeControlPlane()
    async with other.running():
        server.gateway_url = other.url
        config = joined(tmp_path, server.url, "")
        async with AgentProcess(config).running():
            await server.until(lambda: server.node().inventory)
            await server.drop()
            await other.until(lambda: other.node().inventory)
            assert len(server.node().hellos) == 1
        async with AgentProcess(config).running():  # after a restart, too
            await other.until(lambda: len(other.node().hellos) == 2)
        assert len(server.node().hellos) == 1


async def test_a_proxy_that_leads_to_a_page_is_asked_again() -> None:
    """As one does that is in maintenance, or that leads all of http to https."""
    asked = asyncio.Semaphore(0)

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: https://status.example.org/\r\n\r\n")
        writer.close()
        asked.release()

    async with await asyncio.start_server(redirect, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        identity = Identity(f"http://127.0.0.1:{port}", "n1", "id-1", "test", "secret")
        link = Link(identity, Clock(), NoGuard(), never_asked, lambda _: None, 0.1)
        async with asyncio.timeout(60):
            # Raises what ends the link, where anything does.
            await first_of(link.keep(None), times(asked, 2))


async def times(asked: asyncio.Semaphore, number: int) -> None:
    for _ in range(number):
        await asked.acquire()


def never_asked() -> Hello:
    raise AssertionError("nothing is said before the connection is open")


async def test_an_agent_that_knew_no_address_of_its_own_ends_when_there_is_one(
    server, tmp_path, monkeypatch
):
    """As one that began before the machine had a name server: the next one reports the address."""
    found = joined(tmp_path, "http://skep.invalid", server.url)
    agent = AgentProcess(replace(found, network_interval_s=0.05))
    task = agent.start()
    await server.until(lambda: server.node().inventory)
    assert server.node().inventory.address == "127.0.0.1"
    monkeypatch.setattr(config, "own_address", lambda _: "10.0.0.7")
    with pytest.raises(AddressFound, match=r"10\.0\.0\.7"):
        await task
