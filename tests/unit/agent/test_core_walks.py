"""Long random walks: what Hypothesis seldom reaches, with every weight chosen for trouble."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.support.agent_specs import gpu, spec
from tests.support.agent_world import World

from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.protocol import AttemptSpec

UUIDS = [f"GPU-{n}" for n in range(4)]
STEPS = 400


class Walk:
    """A server, an engine and bad luck around one agent."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World([gpu(uuid) for uuid in UUIDS])
        self.world.welcome()
        self.wanted: dict[str, AttemptSpec] = {}
        self.made = 0
        self.moves: list[tuple[int, Callable[[], None]]] = [
            (8, self.submit),
            (8, self.list_all),
            (3, self.ask_to_stop),
            (2, self.drop),
            (1, self.raise_epoch),
            (1, self.list_stale),
            (40, self.complete_one),
            (6, self.exit_one),
            (1, self.vanish_one),
            (8, self.world.drain_all),
            (8, self.world.ack_facts),
            (8, self.world.heartbeat),
            (8, lambda: self.world.advance(self.random.choice([0.1, 1, 5]))),
            (1, lambda: self.world.advance(self.random.choice([31, 400]))),
            (2, self.break_connection),
            (3, self.welcome),
            (2, self.world.look),
            (2, self.restart),
            (2, self.change_gpus),
            (1, self.die_during_create),
        ]

    def step(self) -> None:
        weights, moves = zip(*self.moves, strict=True)
        self.random.choices(moves, weights)[0]()

    def submit(self) -> None:
        self.made += 1
        name = f"a{self.made}"
        gpus = self.random.sample(UUIDS, self.random.choice([0, 1, 1, 2]))
        fields = {"network": "host", "ports": {"x": [20000 + self.made % 11]}}
        self.wanted[name] = spec(name, gpu_uuids=gpus, **self.random.choice([{}, fields]))
        self.list_all()

    def list_all(self) -> None:
        self.world.desire(*self.wanted.values())

    def list_stale(self) -> None:
        self.world.desire(revision=max(0, self.world.revision - 1))

    def ask_to_stop(self) -> None:
        if self.wanted:
            name = self.random.choice(list(self.wanted))
            self.wanted[name] = self.wanted[name].model_copy(update={"desired": "stop"})
            self.list_all()

    def drop(self) -> None:
        if self.wanted:
            del self.wanted[self.random.choice(list(self.wanted))]
            self.list_all()

    def raise_epoch(self) -> None:
        if self.wanted:
            name = self.random.choice(list(self.wanted))
            epoch = self.wanted[name].epoch + self.random.choice([1, 1, -1])
            self.wanted[name] = self.wanted[name].model_copy(update={"epoch": epoch})
            self.list_all()

    def complete_one(self) -> None:
        if self.world.pending:
            operation = self.random.choice(self.world.pending)
            fallible = isinstance(operation, do.Pull | do.Create | do.Start | do.Stop | do.Remove)
            fails = fallible and self.random.random() < 0.1
            self.world.complete(operation, "engine_down" if fails else "")

    def exit_one(self) -> None:
        if running := self.world.running():
            self.world.exit(self.random.choice(running).container_id, self.random.choice([0, 1]))

    def vanish_one(self) -> None:
        if self.world.containers:
            self.world.vanish(self.random.choice(list(self.world.containers)))

    def break_connection(self) -> None:
        self.world.disconnect()
        if self.random.random() < 0.5:
            self.world.welcome()
            self.list_all()

    def welcome(self) -> None:
        if not self.world.connected:
            self.world.welcome()
            self.list_all()

    def restart(self) -> None:
        if self.random.random() < 0.2:
            self.world.journal.clear()
        self.world.restart()

    def die_during_create(self) -> None:
        for operation in self.world.pending:
            if isinstance(operation, do.Create):
                self.world.create(operation)
                self.world.restart()
                return

    def change_gpus(self) -> None:
        self.world.busy = set(self.random.sample(UUIDS, self.random.choice([0, 0, 1])))
        bad = self.random.choice([*UUIDS, None, None])
        self.world.gpus = [gpu(uuid, healthy=uuid != bad) for uuid in UUIDS]
        self.world.send(ev.GpusSeen(tuple(self.world.gpus)))

    def finish(self) -> None:
        """The server wants nothing more and nothing fails any more."""
        world = self.world
        world.busy = set()
        for _ in range(30):
            world.welcome()  # no fence: the list alone must be enough
            world.advance(20)
            world.disconnect()
            world.welcome()
            world.desire()
            world.look()
            world.settle()


@pytest.mark.parametrize("seed", range(60))
def test_a_random_walk_keeps_the_invariants_and_everything_ends(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.finish()
    machine = walk.world.machine
    assert not machine.attempts
    assert not machine.gpus.holders
    assert not walk.world.containers
    assert not walk.world.journal
    assert all(
        gpu.healthy == walk.world.gpus[i].healthy for i, gpu in enumerate(machine.gpus.view())
    )
    seqs = [fact.seq for fact in walk.world.facts]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("seed", range(10))
def test_walks_are_lively(seed: int) -> None:
    """The walk above proves little if nothing happens on it."""
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    phases = {fact.phase for fact in walk.world.facts}
    assert phases >= {"running", "exited", "released", "failed"}
    assert len(walk.world.facts) > 50
