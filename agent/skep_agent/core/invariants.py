"""What always holds of an agent's state: run after every step in tests."""

from __future__ import annotations

from skep_agent.core.attempt import ALIVE, OVER, RUNNING, WITH_CONTAINER, Attempt
from skep_agent.core.machine import NodeMachine

_TIMED = frozenset(
    {"pulling", "creating", "starting", "saving", "stopping", "ended", "released", "removing"}
)


class Violation(AssertionError):
    """An invariant does not hold; the text says which, and the attempt's history."""


def validate(machine: NodeMachine) -> None:
    """Raises Violation."""
    for attempt_id, attempt in machine.attempts.items():
        for name, holds in _of_attempt(machine, attempt_id, attempt).items():
            if not holds:
                raise Violation(f"{name}: {attempt}")
    for name, holds in _of_node(machine).items():
        if not holds:
            raise Violation(name)


def _of_attempt(machine: NodeMachine, key: str, attempt: Attempt) -> dict[str, bool]:
    state = attempt.state
    tombstone = machine.tombstones.get(key)
    return {
        "attempts are filed under their id": key == attempt.attempt_id,
        "a state that is kept is alive or over": state in ALIVE | OVER,
        "an attempt has an outcome exactly when it is over": (attempt.outcome is not None)
        == (state in OVER),
        "it has a container while one is worked with": state not in WITH_CONTAINER
        or attempt.container_id != "",
        "it has no container before one is created": state != "pulling"
        or attempt.container_id == "",
        "what starts is whole": state != "starting" or attempt.whole,
        "only what has a container is removed": state != "removing" or attempt.container_id != "",
        "it holds no GPU and no port once released": state not in ("released", "removing")
        or not (attempt.gpus or attempt.ports),
        "its GPUs know it": all(
            machine.gpus.holders.get(uuid) == attempt.attempt_id for uuid in attempt.gpus
        ),
        "an ended attempt waits only for GPUs": state != "ended" or bool(attempt.gpus),
        "every state that must pass has a deadline": state not in _TIMED
        or key in machine.deadlines,
        "what is being stopped has a reason": state not in ("saving", "stopping")
        or attempt.stop_reason is not None,
        "what is being stopped knows when it is killed": (attempt.kill_at is not None)
        >= (state == "stopping"),
        "what saves its work has a time for it, and was not asked to end": state != "saving"
        or (attempt.save_until is not None and attempt.kill_at is None),
        "what runs is not to be stopped": state not in ("pulling", "created", "running")
        or attempt.stop_reason is None,
        "a listed attempt alone is prepared": state not in ("pulling", "creating")
        or attempt.spec is not None,
        "its log is shipped once it runs": state not in RUNNING or attempt.shipping,
        "the container goes last": state != "removing"
        or (attempt.release_acked and attempt.drained),
        "what is acknowledged and drained does not linger": state != "released"
        or not (attempt.release_acked and attempt.drained),
        "a new life is newer than the buried one": tombstone is None
        or tombstone.epoch < attempt.epoch,
    }


def _of_node(machine: NodeMachine) -> dict[str, bool]:
    held = [uuid for attempt in machine.attempts.values() for uuid in attempt.gpus]
    ports = [port for attempt in machine.attempts.values() for port in attempt.ports]
    sent = [fact.seq for fact in machine.outbox.sent]
    waiting = list(machine.outbox.waiting)
    return {
        "a GPU has one holder": len(held) == len(set(held)) == len(machine.gpus.holders),
        "a port has one holder": len(ports) == len(set(ports)),
        "facts are in order": sent + waiting == sorted({*sent, *waiting}),
        "facts are unacknowledged": all(seq > machine.acked_seq for seq in sent + waiting),
        "a session has a lease": machine.session is None or machine.lease_until is not None,
    }
