"""A whole agent: the core, and everything that acts for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog
from websockets.exceptions import ConnectionClosed

from skep_agent.accelerators.base import GpuProbe
from skep_agent.accelerators.simulated import SimulatedGpus
from skep_agent.config import AgentConfig, agent_version
from skep_agent.containers import RuntimeFailure
from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.core.adoption import UNKNOWN_LEASE_S
from skep_agent.core.attempt import ALIVE
from skep_agent.core.invariants import validate
from skep_agent.core.machine import NodeMachine
from skep_agent.protocol import (
    FEATURES,
    Desired,
    Hello,
    Inventory,
    InventoryChanged,
    Message,
    NetworkPolicy,
    NodeImages,
    OpenStream,
    Samples,
)
from skep_agent.runtimes.base import Runtime
from skep_agent.shell import scratch
from skep_agent.shell.checks import NodeCheckRuns
from skep_agent.shell.clock import Clock, Handle
from skep_agent.shell.image_saves import ContainerSaves
from skep_agent.shell.inbox import Acknowledged, Arrived, LinkEvent, Lost, Opened
from skep_agent.shell.lease_guard import LeaseGuard
from skep_agent.shell.link import PULSE_S, FatalClose, Link
from skep_agent.shell.logs import LogShipper
from skep_agent.shell.node_inventory import NodeInventory
from skep_agent.shell.operations import Operations
from skep_agent.shell.prefetches import PrefetchPulls
from skep_agent.shell.probing import Probing
from skep_agent.shell.session import Session
from skep_agent.shell.streams import Streams
from skep_agent.shell.tasks import TaskSet, first_of, going_on
from skep_agent.shell.working_files import Archives
from skep_agent.statedir import Identity, StateDir

ENGINE_PAUSE_S = 2.0
DISK_EVERY_S = 10.0
IMAGES_EVERY_S = 60.0
SAMPLE_PAUSE_S = 1.0  # while there is no session

log = structlog.get_logger(__name__)


class Agent:
    """Runs one node. All of its state changes go through `dispatch`."""

    def __init__(
        self,
        config: AgentConfig,
        identity: Identity,
        state: StateDir,
        runtime: Runtime,
        probe: GpuProbe,
        clock: Clock,
        fence: LeaseGuard,
    ) -> None:
        self.config = config
        self.identity = identity
        self.clock = clock
        self.journal = state.journal()
        self._fence = fence
        self._masks = state.masks()
        self.machine = NodeMachine(config.limits(), self.journal.next_seq)
        self.logs = LogShipper(runtime, lambda: clock.moment().wall, self._log_drained)
        self._session: Session | None = None
        self.link = Link(
            identity,
            clock,
            fence,
            self.hello,
            self._take_in,
            config.reconnect_max_s,
            lambda url: state.save(replace(identity, gateway_url=url)),
        )
        self.facts_due = asyncio.Event()
        self._instance_id = state.instance_id
        self._runtime = runtime
        self._probe, self._probing = probe, Probing(probe, state.gpus)
        archives = Archives(state.archives, identity)
        find, held = self.machine.attempts.get, self.machine.life.ports_held
        emit, may_write, keep = self._operated, self._may_write, self._masks.keep
        self._operations = Operations(runtime, archives, fence, emit, may_write, find, keep)
        self._images_due = asyncio.Event()
        self._sent_images: NodeImages | None = None  # in this session
        self.prefetches = PrefetchPulls(self._operations.pull, self._send, self._images_due.set)
        self.saves = ContainerSaves(runtime, find, self._masks.of, self._send)
        self.checks = NodeCheckRuns(probe, config, identity.server, held, self._send)
        self._streams = Streams(identity, runtime, find)
        self._tasks = TaskSet()
        self._timer: Handle | None = None
        self._timer_at: float | None = None
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inventory = NodeInventory(
            config, identity.server, runtime, self._probing, self.journal
        )
        self._taken_over = False  # it knows what runs here

    async def run(self) -> None:
        """Run until cancelled: containers then keep running. Raises FatalClose when the server
        turned this node away and nothing runs here any more."""
        try:
            await self._take_over()
            await first_of(
                self._keep_connected(),
                self._pulse(),
                self._sample(),
                self._look_at_gpus(),
                self._look_at_containers(),
                self._look_at_disk(),
                self._look_at_images(),
                self._look_at_network(),
                self._tidy_scratch(),
                self._fail_when_broken(),
            )
        finally:
            await self._close()

    @property
    def connected(self) -> bool:
        return self._session is not None

    def dispatch(self, event: ev.Event) -> None:
        """Give the event to the core and do what it says. An error here is a bug: the agent stops,
        and the next one adopts its containers."""
        if self._broken.done():
            return
        try:
            newest, known = self.link.lease_until, self.machine.lease_until
            if newest is not None and known is not None and newest > known:
                # Renewed while this loop was busy: that is no reason to fence.
                self._handle(ev.LeaseSeen(newest))
            self._handle(event)
            self.link.revision = self.machine.revision
            self._set_timer()
        except Exception as error:
            self.broke(error)

    def broke(self, error: BaseException) -> None:
        """End this agent with the error."""
        if not self._broken.done():
            self._broken.set_exception(error)

    def _handle(self, event: ev.Event) -> None:
        for instruction in self.machine.handle(event, self.clock.moment()):
            self._do(instruction)
        if self.config.validate:
            validate(self.machine)

    def _operated(self, event: ev.Event) -> None:
        """Report what a GPU said before a process ended together with its end."""
        if isinstance(event, ev.Exited):
            self._note_xids()
        self.dispatch(event)

    def _note_xids(self) -> None:
        # The protocol has NVIDIA's numbers alone; other vendors' faults make a GPU unhealthy.
        faults = [fault for fault in self._probe.faults() if fault.vendor == "nvidia"]
        if faults:
            self.dispatch(ev.XidsSeen(tuple((fault.uuid, int(fault.code)) for fault in faults)))

    def _may_write(self, attempt_id: str) -> bool:
        """Return whether an attempt is this node's: another may have it once the lease is over, or
        the server lists it no longer."""
        attempt = self.machine.attempts.get(attempt_id)
        if attempt is None or attempt.stop_reason not in (None, "requested"):
            return False
        until = max(self.machine.lease_until or 0.0, self.link.lease_until or 0.0)
        return self.clock.moment().mono < until

    def hello(self) -> Hello:
        return Hello(
            agent_version=agent_version(),
            instance_id=self._instance_id,
            inventory=self._present_inventory(),
            attempt_ids=self.logs.attempt_ids(),
            memory_id=self.journal.memory_id,
            held=self.machine.known(),
            features=FEATURES,
        )

    def learn(self, desired: Desired) -> None:
        """Take over what no disk keeps: the keys of object stores; and, in an agent that lost its
        state directory, what the logs of the containers that it found may not show."""
        self._runtime.learn(desired.attempts)
        if not self.logs.has_unknown():
            return
        listed = {spec.attempt_id: spec.masks for spec in desired.attempts}
        for attempt_id, masks in listed.items():
            if attempt_id in self.machine.attempts:
                with going_on("masks_not_kept"):  # the next agent asks again, too
                    self._masks.keep(attempt_id, masks)
        self.logs.learn(listed, desired.keep)

    def use_network_policy(self, policy: NetworkPolicy) -> None:
        self._runtime.use_network_policy(policy)
        self._tasks.start("network", self._see_to_the_network())

    def open_stream(self, what: OpenStream) -> None:
        self._streams.open(what)

    # --- the start and the end

    async def _take_over(self) -> None:
        lease_until = self._fence.lease_until or self.journal.lease_until
        self._fence.set_lease(lease_until or self.clock.moment().mono + UNKNOWN_LEASE_S)
        self._fence.start()
        containers = await self._first_containers()
        gpus = await self._probing.first_gpus()
        await self._inventory.gather(gpus)
        self._fence.keep_only([container.container_id for container in containers])
        for container in containers:
            self._fence.name(container.container_id)
        log.info("agent_started", node=self.identity.name, containers=len(containers))
        records = tuple(self.journal.records)
        self.dispatch(ev.AgentStarted(records, tuple(containers), tuple(gpus), lease_until))
        if self.machine.lease_until is not None:
            self._fence.set_lease(self.machine.lease_until)
        self._taken_over = True
        self._masks.keep_only(self.machine.attempts)

    async def _first_containers(self) -> list[Any]:
        """Without an engine there is no way to know what runs: wait for it."""
        while True:
            try:
                return await self._runtime.list()
            except RuntimeFailure as failure:
                log.error("engine_down", problem=failure.message)
            except Exception:  # an answer that makes no sense: ending would end the tasks, too
                log.exception("containers_not_seen")
            await asyncio.sleep(ENGINE_PAUSE_S)

    async def _pulse(self) -> None:
        while True:
            self.link.log_bytes_waiting = self.logs.waiting_bytes
            self.link.pulse()
            await asyncio.sleep(PULSE_S)

    def _take_in(self, news: LinkEvent) -> None:
        """Take in the link's events, in order."""
        try:
            match news:
                case Opened(connection=connection):
                    self._session = Session(self, connection)
                    self._session.open()
                    self._sent_images = None
                    self._images_due.set()
                case Lost():
                    session, self._session = self._session, None
                    if session is not None:
                        session.close()
                case Acknowledged(sent_at=sent_at) if self._session is not None:
                    self._session.acknowledged(sent_at)
                case Arrived(message=message) if self._session is not None:
                    self._session.take(message)
        except Exception as error:
            self.broke(error)

    async def _send(self, message: Message) -> None:
        """When there is a session; else it is dropped."""
        if self._session is not None:
            with suppress(ConnectionClosed):
                await self._session.send(message)

    async def _keep_connected(self) -> None:
        try:
            await self.link.keep(self.machine.lease_until)
        except FatalClose as fatal:
            log.error("turned_away", problem=str(fatal))
            await self._wait_for_the_fence()
            raise

    async def _wait_for_the_fence(self) -> None:
        """Wait: only this agent stops these containers when the lease is over."""
        while any(a.state in ALIVE for a in self.machine.attempts.values()):
            await self.clock.sleep(1.0)

    async def _fail_when_broken(self) -> None:
        await self._broken

    async def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        if self._timer is not None:
            self._timer.cancel()
        work = (self._streams, self.prefetches, self.saves, self.checks, self._operations)
        for part in (*work, self._tasks, self.logs):
            await part.close()
        idle = not any(attempt.state in ALIVE for attempt in self.machine.attempts.values())
        self._fence.close(idle=idle and self._taken_over)
        self.journal.close()
        await self._runtime.close()
        await self._probing.close()

    # --- the core's instructions

    def _do(self, instruction: do.Instruction) -> None:
        match instruction:
            case do.SendFacts():
                self.facts_due.set()
            case do.Remember(record=record):
                self.journal.remember(record)
            case do.Forget(attempt_id=attempt_id):
                self.journal.forget(attempt_id)
                self._masks.forget(attempt_id)
                self._runtime.forget(attempt_id)
            case do.RememberLease(until=until):
                self.journal.remember_lease(until)
            case do.ShipLogs(attempt_id, epoch, container_id):
                self.logs.ship(attempt_id, epoch, container_id, self._masks.of(attempt_id))
            case do.EndLogs(attempt_id, epoch, readable):
                self.logs.end(attempt_id, epoch, readable=readable)
            case do.DropLogs(attempt_id, epoch):
                self.logs.drop(attempt_id, epoch)
            case do.VerifyGpus():
                self._tasks.start(("verify", instruction.attempt_id), self._verify(instruction))
            case do.SendInventory():
                self._tasks.start("inventory", self._send_inventory())
            case do.Reconnect():
                log.error("lease_over", node=self.identity.name)
                self.link.reconnect()
            case do.Cancel():
                self._operations.cancel(instruction)
            case do.Warn(code=code, message=message):
                log.warning(code, problem=message)
            case _:
                self._operations.run(instruction)

    def _set_timer(self) -> None:
        due = self.machine.deadlines.next()
        if due == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self.clock.call_at(due, self._tick) if due is not None else None

    def _tick(self) -> None:
        self._timer_at = None
        self.dispatch(ev.Tick())

    def _log_drained(self, attempt_id: str, epoch: int) -> None:
        self.dispatch(ev.LogsDrained(attempt_id, epoch))

    # --- the GPUs

    async def _verify(self, what: do.VerifyGpus) -> None:
        key = what.attempt_id, what.epoch
        try:
            busy = await self._probing.busy(what.uuids)
        except Exception:
            log.exception("probe_broke")  # the core asks again
            return
        self._note_xids()
        self.dispatch(ev.GpusBusy(*key, busy) if busy else ev.GpusClean(*key))

    async def _look_at_gpus(self) -> None:
        while True:
            await asyncio.sleep(self.config.inventory_interval_s)
            with going_on("probe_broke"):
                self._note_xids()
                last = self.machine.gpus.seen.values()
                gpus = await self._probing.gpus(last)
                self.dispatch(ev.GpusSeen(tuple(gpus)))
                if await self._inventory.see_gpus(gpus):
                    await self._send_inventory()

    def _present_inventory(self) -> Inventory:
        return self._inventory.with_gpus(self.machine.gpus.view())

    async def _send_inventory(self) -> None:
        await self._send(InventoryChanged(inventory=self._present_inventory()))

    # --- what is looked at from time to time

    async def _look_at_containers(self) -> None:
        while True:
            await asyncio.sleep(self.config.containers_interval_s)
            with going_on("containers_not_seen"):
                self.dispatch(ev.ContainersSeen(tuple(await self._runtime.list())))

    async def _tidy_scratch(self) -> None:
        while True:
            await asyncio.sleep(self.config.scratch_interval_s)
            await scratch.tidy(self._runtime, self.identity)
            with going_on("leftovers_not_removed"):
                await self._runtime.remove_leftovers()
            with going_on("images_not_cleaned"):
                await self._runtime.clean_images()

    async def _look_at_network(self) -> None:
        """Rules that were flushed are written again, also while nothing starts."""
        while True:
            await asyncio.sleep(self.config.network_interval_s)
            await self._see_to_the_network()

    async def _see_to_the_network(self) -> None:
        if await self._inventory.look():
            await self._send_inventory()

    async def _look_at_disk(self) -> None:
        """Off the loop: a disk that hangs holds up nothing else."""
        while True:
            with going_on("disk_not_seen"):
                self.link.disk_mb = await asyncio.to_thread(self._runtime.disk_mb)
            await asyncio.sleep(DISK_EVERY_S)

    async def _look_at_images(self) -> None:
        """Report the images when a session begins, after a prefetch, and when they changed."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(IMAGES_EVERY_S):
                    await self._images_due.wait()
            self._images_due.clear()
            if self._session is None:
                continue
            with going_on("images_not_seen"):
                found = NodeImages(images=await self._runtime.images())
                if found != self._sent_images:
                    self._sent_images = found
                    await self._send(found)

    async def _sample(self) -> None:
        while True:
            session = self._session
            await asyncio.sleep(session.welcome.sample_interval_s if session else SAMPLE_PAUSE_S)
            if self._session is not None:
                with going_on("sample_broke"):
                    await self._send(await self._samples())

    async def _samples(self) -> Samples:
        running = self.machine.running()
        if isinstance(self._probe, SimulatedGpus):
            self._probe.set_running([uuid for attempt in running for uuid in attempt.gpus])
        return Samples(
            at=self.clock.moment().wall,
            gpus=await self._probing.samples(),
            containers=await self._runtime.sample(
                {attempt.attempt_id: attempt.container_id for attempt in running}
            ),
        )
