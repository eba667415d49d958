"""How an agent takes over what it finds: after its own restart, and what turns up later."""

from __future__ import annotations

from skep_agent.core import events as ev
from skep_agent.core.attempt import Attempt
from skep_agent.core.instructions import Remove, ShipLogs, Warn
from skep_agent.core.lifecycle import Lifecycle
from skep_agent.core.records import Outcome, Remembered, Stopping
from skep_agent.runtimes.base import Container

# For containers whose lease nobody remembers (the journal is lost): time to find the server.
UNKNOWN_LEASE_S = 30.0


class Adoption(Lifecycle):
    """Labels of containers say what runs; the journal adds what labels cannot."""

    def on_adopted(self, attempt: Attempt) -> None:
        """For the subclass: it was found while a session may be on."""

    def _agent_started(self, event: ev.AgentStarted) -> None:
        self.gpus.see(event.gpus)
        records = {record.attempt_id: record for record in event.remembered}
        found = self._newest(event.containers)
        for container in found.values():
            record = records.pop(container.attempt_id, None)
            same_life = record is not None and record.epoch == container.epoch
            self._adopt(container, record if same_life else None)
        for record in records.values():
            self._adopt_without_container(record)
        if event.lease_until is not None:
            self.set_lease(event.lease_until)
        elif self.attempts:
            self.set_lease(self.now.mono + UNKNOWN_LEASE_S)

    def _containers_seen(self, event: ev.ContainersSeen) -> None:
        """The list may be some moments old: what is held or was removed since stays as it is."""
        for container in self._newest(event.containers).values():
            grave = self.graves.get(container.attempt_id)
            if container.attempt_id in self.attempts:
                continue
            if grave is not None and container.epoch <= grave.epoch:
                self._remove_stray(container)
            else:
                self._warn_found(container)
                self.on_adopted(self._adopt(container, None))

    def _newest(self, containers: tuple[Container, ...]) -> dict[str, Container]:
        """One container per attempt, of the highest epoch; older lives are removed."""
        newest: dict[str, Container] = {}
        for container in sorted(containers, key=lambda c: c.epoch, reverse=True):
            if newest.setdefault(container.attempt_id, container) is not container:
                self._remove_stray(container)
        return newest

    def _remove_stray(self, container: Container) -> None:
        key = container.attempt_id, container.epoch, container.container_id
        self.out.append(Remove(*key))

    def _warn_found(self, container: Container) -> None:
        text = f"container {container.container_id[:12]} of attempt {container.attempt_id}"
        self.out.append(Warn("container_found", text))

    def _adopt(self, container: Container, record: Remembered | None) -> Attempt:
        attempt = Attempt(container.attempt_id, container.epoch, container.job_id)
        attempt.container_id = container.container_id
        if record is not None:
            attempt.plan, attempt.ports = record.plan, record.ports
            attempt.whole = record.container_id == container.container_id
            if record.stopping is not None:
                self._resume(attempt, record.stopping)
        self.attempts[attempt.attempt_id] = attempt
        outcome = record.outcome if record is not None else None
        if outcome is None and container.exit is not None:
            outcome = Outcome.of(container.exit)
        if record is None or not record.released:
            attempt.gpus = self.gpus.hold(attempt.attempt_id, container.gpu_uuids)
        if outcome is not None:
            self._adopt_dead(attempt, outcome)
        else:
            self.move(attempt, "created" if container.status == "created" else "running")
        return attempt

    def _resume(self, attempt: Attempt, stopping: Stopping) -> None:
        """Not beyond what it may have, should the clock have begun anew."""
        attempt.stop_reason = stopping.reason
        if stopping.save_until is not None:
            latest = self.now.mono + attempt.plan.signal_grace_s
            attempt.save_until = min(stopping.save_until, latest)
        if stopping.kill_at is not None:
            attempt.kill_at = min(stopping.kill_at, self.now.mono + attempt.plan.grace_s)

    def _adopt_dead(self, attempt: Attempt, outcome: Outcome) -> None:
        key = attempt.attempt_id, attempt.epoch
        self.out.append(ShipLogs(*key, attempt.container_id))
        attempt.shipping = True
        self.end(attempt, outcome)

    def _adopt_without_container(self, record: Remembered) -> None:
        attempt = Attempt(record.attempt_id, record.epoch, record.job_id)
        self.attempts[attempt.attempt_id] = attempt
        if not record.released:
            attempt.gpus = self.gpus.hold(attempt.attempt_id, record.gpu_uuids)
        lost = Outcome("lost", message="Its container was gone when the agent came back.")
        self.end(attempt, record.outcome or lost)
