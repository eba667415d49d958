"""A planned absence of the server: the lease of the node is extended, within bounds."""

from __future__ import annotations

import pytest
from tests.support.agent_specs import gpu, spec
from tests.support.agent_world import LEASE_S, World

from skep_agent.core import events as ev
from skep_agent.protocol import MAX_ABSENCE_S

HOUR = 3600.0


@pytest.fixture
def world() -> World:
    """With one attempt that runs."""
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(spec(gpu_uuids=["GPU-1"]))
    world.complete_all()
    assert world.running()
    return world


def extend(world: World, for_s: float) -> None:
    world.send(ev.LeaseExtended(for_s))
    world.lease_until = world.machine.lease_until


def test_finding_c8_an_announced_absence_costs_no_container(world: World) -> None:
    extend(world, HOUR)
    world.disconnect()
    world.advance(HOUR)
    assert world.running()
    assert world.machine.attempts["a1"].stop_reason is None


def test_finding_c8_a_server_that_stays_away_longer_than_it_said_loses_the_node(
    world: World,
) -> None:
    begin = world.now
    extend(world, HOUR)
    world.disconnect()
    world.advance(begin + HOUR + LEASE_S - world.now + 0.1)
    assert world.machine.attempts["a1"].stop_reason == "fenced"


def test_finding_c8_the_extension_counts_from_the_last_renewal_not_from_its_arrival(
    world: World,
) -> None:
    world.heartbeat()
    renewed = world.now
    world.advance(20)  # the word was under way for so long
    extend(world, HOUR)
    assert world.machine.lease_until == renewed + LEASE_S + HOUR
    extend(world, HOUR)
    assert world.machine.lease_until == renewed + LEASE_S + HOUR, "sent twice, extended once"


def test_finding_c8_an_absence_is_bounded_by_the_agent(world: World) -> None:
    extend(world, 1e9)
    assert world.machine.lease_until == world.now + LEASE_S + MAX_ABSENCE_S


def test_finding_c8_an_agent_that_restarts_meanwhile_keeps_the_extension(world: World) -> None:
    extend(world, HOUR)
    world.restart()
    world.advance(HOUR)
    assert world.running()


def test_finding_c8_the_next_welcome_ends_the_extension(world: World) -> None:
    extend(world, HOUR)
    world.disconnect()
    world.advance(600)
    hello_sent_at = world.now
    world.advance(100)  # a Hello that waited long among those of many agents fences nothing
    world.connected = True
    world.send(ev.Welcomed(LEASE_S, hello_sent_at))
    assert world.machine.lease_until == world.now + LEASE_S
    world.lease_until = world.machine.lease_until
    world.advance(LEASE_S + 0.1)
    assert world.machine.attempts["a1"].stop_reason == "fenced"


def test_finding_c8_nothing_extends_the_lease_outside_a_session(world: World) -> None:
    before = world.machine.lease_until
    world.disconnect()
    extend(world, HOUR)
    assert world.machine.lease_until == before
