"""A gang begins together: its tasks get everything ready, say so, and wait for the word."""

from __future__ import annotations

import pytest
from tests.support.agent_specs import gpu, spec
from tests.support.agent_world import World

from skep_agent.core import instructions as do
from skep_agent.protocol import AttemptSpec

HELD = spec(desired="hold", gpu_uuids=["GPU-1"])
DESIRED = spec(gpu_uuids=["GPU-1"])


@pytest.fixture
def world() -> World:
    """With one attempt that is ready and held back."""
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(HELD)
    world.complete_all()
    return world


def test_a_held_attempt_is_created_and_says_ready_but_does_not_start(world: World) -> None:
    assert world.phases("a1") == ["pulling", "creating", "ready"]
    assert [c.status for c in world.containers.values()] == ["created"]
    assert world.pending == []
    assert world.machine.gpus.holders == {"GPU-1": "a1"}


def test_it_starts_when_the_server_says_run(world: World) -> None:
    world.desire(DESIRED)
    world.complete_all()
    assert world.phases("a1")[-2:] == ["ready", "running"]
    assert len(world.running()) == 1


def test_the_word_may_come_before_it_is_ready() -> None:
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(HELD)
    world.complete(world.pending[0])
    world.desire(DESIRED)
    world.complete_all()
    assert world.phases("a1") == ["pulling", "creating", "running"]


def test_what_was_to_run_may_still_be_held_back_before_it_is_ready() -> None:
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(DESIRED)
    world.desire(HELD)
    world.complete_all()
    assert not world.running()


@pytest.mark.parametrize("listed", [[DESIRED.model_copy(update={"desired": "stop"})], []])
def test_it_is_stopped_at_once_while_it_is_held(world: World, listed: list[AttemptSpec]) -> None:
    world.desire(*listed)
    world.settle()
    assert world.phases("a1")[-3:] == ["ready", "exited", "released"]
    assert not world.containers
    assert not world.machine.gpus.holders


def test_a_fence_ends_it_as_lost(world: World) -> None:
    world.advance(100)
    world.settle()
    assert world.facts[-2].error_code == "node_lost"
    assert not world.containers


def test_an_agent_that_comes_back_says_ready_again_and_goes_on_waiting(world: World) -> None:
    world.restart()
    world.welcome()
    world.desire(HELD)
    assert world.phases("a1")[-2:] == ["ready", "ready"]
    assert world.pending == []
    world.desire(DESIRED)
    world.complete_all()
    assert len(world.running()) == 1


def test_a_container_of_which_the_agent_did_not_receive_is_made_whole_first() -> None:
    """It may have died between the creation of the container and the files in it."""
    world = World([gpu("GPU-1")])
    world.welcome()
    world.desire(HELD)
    world.complete(world.pending[0])
    creation = world.pending[0]
    assert isinstance(creation, do.Create)
    world.create(creation)
    world.restart()
    assert "ready" not in world.phases("a1")
    world.welcome()
    world.desire(HELD)
    assert [type(op) for op in world.pending] == [do.Create]
    world.complete_all()
    assert world.phases("a1")[-1] == "ready"
    assert not world.running()
