"""How an agent takes over what it finds: after its own restart, and what turns up later."""

from __future__ import annotations

from collections.abc import Callable

from skep_agent.containers import Container
from skep_agent.core import events as ev
from skep_agent.core.attempt import Attempt
from skep_agent.core.instructions import Remove, ShipLogs, Warn
from skep_agent.core.lifecycle import Lifecycle
from skep_agent.core.records import Outcome, Remembered, Stopping

# For containers whose lease is not known (the journal is lost): time to find the server.
UNKNOWN_LEASE_S = 30.0


class Adoption:
    """Labels of containers say what runs; the journal adds what labels cannot."""

    def __init__(self, life: Lifecycle, on_adopted: Callable[[Attempt], None]) -> None:
        """`on_adopted` is called for an attempt that is found while a session may be on."""
        self._life = life
        self._on_adopted = on_adopted

    def agent_started(self, event: ev.AgentStarted) -> None:
        self._life.gpus.see(event.gpus)
        records = {record.attempt_id: record for record in event.remembered}
        found = self._newest(event.containers)
        for container in found.values():
            record = records.pop(container.attempt_id, None)
            same_life = record is not None and record.epoch == container.epoch
            self._adopt(container, record if same_life else None)
        for record in records.values():
            self._adopt_without_container(record)
        if event.lease_until is not None:
            self._life.set_lease(event.lease_until)
        elif self._life.attempts:
            self._life.set_lease(self._life.now.mono + UNKNOWN_LEASE_S)

    def containers_seen(self, event: ev.ContainersSeen) -> None:
        """The list may be some moments old: what is held or was removed since stays as it is."""
        for container in self._newest(event.containers).values():
            tombstone = self._life.tombstones.get(container.attempt_id)
            if container.attempt_id in self._life.attempts:
                continue
            if tombstone is not None and container.epoch <= tombstone.epoch:
                self._remove_stray(container)
            else:
                self._warn_found(container)
                self._on_adopted(self._adopt(container, None))

    def _newest(self, containers: tuple[Container, ...]) -> dict[str, Container]:
        """One container per attempt, of the highest epoch; older lives are removed."""
        newest: dict[str, Container] = {}
        for container in sorted(containers, key=lambda c: c.epoch, reverse=True):
            if newest.setdefault(container.attempt_id, container) is not container:
                self._remove_stray(container)
        return newest

    def _remove_stray(self, container: Container) -> None:
        key = container.attempt_id, container.epoch, container.container_id
        self._life.out.append(Remove(*key))

    def _warn_found(self, container: Container) -> None:
        text = f"container {container.container_id[:12]} of attempt {container.attempt_id}"
        self._life.out.append(Warn("container_found", text))

    def _adopt(self, container: Container, record: Remembered | None) -> Attempt:
        attempt = Attempt(container.attempt_id, container.epoch, container.job_id)
        attempt.container_id = container.container_id
        if record is not None:
            attempt.plan, attempt.ports = record.plan, record.ports
            attempt.whole = record.container_id == container.container_id
            if record.stopping is not None:
                self._resume(attempt, record.stopping)
        self._life.attempts[attempt.attempt_id] = attempt
        outcome = record.outcome if record is not None else None
        if outcome is None and container.exit is not None:
            outcome = Outcome.of(container.exit)
        if record is None or not record.released:
            attempt.gpus = self._life.gpus.hold(attempt.attempt_id, container.gpu_uuids)
        if outcome is not None:
            self._adopt_dead(attempt, outcome)
        else:
            self._life.move(attempt, "created" if container.status == "created" else "running")
        return attempt

    def _resume(self, attempt: Attempt, stopping: Stopping) -> None:
        """Not beyond what it may have, should the clock have begun anew."""
        attempt.stop_reason = stopping.reason
        if stopping.save_until is not None:
            latest = self._life.now.mono + attempt.plan.signal_grace_s
            attempt.save_until = min(stopping.save_until, latest)
        if stopping.kill_at is not None:
            attempt.kill_at = min(stopping.kill_at, self._life.now.mono + attempt.plan.grace_s)

    def _adopt_dead(self, attempt: Attempt, outcome: Outcome) -> None:
        key = attempt.attempt_id, attempt.epoch
        self._life.out.append(ShipLogs(*key, attempt.container_id))
        attempt.shipping = True
        self._life.end(attempt, outcome)

    def _adopt_without_container(self, record: Remembered) -> None:
        attempt = Attempt(record.attempt_id, record.epoch, record.job_id)
        self._life.attempts[attempt.attempt_id] = attempt
        if not record.released:
            attempt.gpus = self._life.gpus.hold(attempt.attempt_id, record.gpu_uuids)
        lost = Outcome("lost", message="Its container was gone when the agent came back.")
        self._life.end(attempt, record.outcome or lost)
