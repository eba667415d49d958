"""Ships the output of all containers: readers on one side, frames for the connection on the
other, a bounded number of bytes between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar
from weakref import WeakValueDictionary

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.core.log_stream import LineTimes, LogStream
from skep_agent.core.mask import Automaton, Mask
from skep_agent.frames import LogFrame
from skep_agent.protocol import LOG_WINDOW_BYTES, LogAck, LogPosition, Stream
from skep_agent.runtimes.base import Runtime

FLUSH_S = 0.1
AGAIN_S = 0.2  # pause before sending again what the server could not take
# Bytes read and not acknowledged: of one attempt, and of all. The reader then waits.
ATTEMPT_BUFFER_BYTES = LOG_WINDOW_BYTES
TOTAL_BUFFER_BYTES = 16 * 1024 * 1024
READ_AGAIN_MAX_S = 5.0
# Of a dead container whose log cannot be read.
READS_OF_THE_DEAD = 8

log = structlog.get_logger(__name__)
# Some 20 ms of work at the worst; the interpreter changes threads every 5 ms.
MASKED_PIECE_BYTES = 64 * 1024
# Less than this is masked at once: to change threads costs more.
INLINE_BYTES = 2048
_NOTHING = Automaton(())

T = TypeVar("T")


class Masking:
    """Covers secrets in logs without holding up anything else of the agent.

    The stream is a tenant's, and so are the secrets: whatever they are, masking is work on one
    thread, in pieces of bounded size, taken in turn from all logs. A log that is slow to mask
    waits, and its container's own log on disk with it.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="masking")
        # The tasks of a gang have the same secrets.
        self._automata: WeakValueDictionary[frozenset[str], Automaton] = WeakValueDictionary()

    async def automaton(self, secrets: Collection[str]) -> Automaton:
        """Return what finds these secrets, shared with all who look for the same ones."""
        if not secrets:
            return _NOTHING
        key = frozenset(secrets)
        found = self._automata.get(key)
        if found is None:
            made = await self._run(Automaton, key)
            found = self._automata.setdefault(key, made)
        return found

    async def feed(self, mask: Mask, data: bytes) -> bytes:
        """Return what is certain by now, as `Mask.feed` does."""
        if mask.idle or len(data) <= INLINE_BYTES:
            return mask.feed(data)
        pieces = []
        for at in range(0, len(data), MASKED_PIECE_BYTES):
            pieces.append(await self._run(mask.feed, data[at : at + MASKED_PIECE_BYTES]))
        return b"".join(pieces)

    def close(self) -> None:
        """What is under way ends with its piece."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)


class _Pump:
    """One attempt's log."""

    def __init__(
        self, attempt_id: str, epoch: int, container_id: str, secrets: Collection[str] | None
    ) -> None:
        self.attempt_id = attempt_id
        self.epoch = epoch
        self.container_id = container_id  # "" where there is nothing to read
        self.secrets = secrets  # None while they are not known: nothing is read
        self.dead = False
        self.streams: dict[Stream, LogStream] = {
            "stdout": LogStream(attempt_id, "stdout"),
            "stderr": LogStream(attempt_id, "stderr"),
        }
        self.reader: asyncio.Task[None] | None = None
        self.flush: asyncio.TimerHandle | None = None

    @property
    def buffered(self) -> int:
        return self.streams["stdout"].buffered + self.streams["stderr"].buffered

    @property
    def drained(self) -> bool:
        return all(stream.drained for stream in self.streams.values())

    def close(self) -> None:
        if self.reader is not None:
            self.reader.cancel()
        if self.flush is not None:
            self.flush.cancel()


class LogShipper:
    """`on_drained(attempt_id, epoch)` is called when the server has a whole log."""

    def __init__(
        self,
        runtime: Runtime,
        wall: Callable[[], float],
        on_drained: Callable[[str, int], None],
    ) -> None:
        self._runtime = runtime
        self._wall = wall
        self._on_drained = on_drained
        self._masking = Masking()
        self._pumps: dict[str, _Pump] = {}
        self._ready: dict[LogStream, None] = {}  # in turn
        self._buffered = 0
        self._unacked = 0
        self._connected = False
        self._with_times = False  # the server takes them
        self._frame_due = asyncio.Event()
        self._has_space = asyncio.Event()

    # --- the core's instructions

    def ship(
        self, attempt_id: str, epoch: int, container_id: str, secrets: Collection[str] | None = ()
    ) -> None:
        """`secrets` are covered in all that is sent; None: they are not known, and the log waits
        for `learn`."""
        secrets = secrets if container_id else ()
        pump = self._pumps[attempt_id] = _Pump(attempt_id, epoch, container_id, secrets)
        if container_id:
            self._start_reader(pump)

    def has_unknown(self) -> bool:
        """Return whether a log waits for the list of secrets that it must not show."""
        return any(pump.secrets is None for pump in self._pumps.values())

    def learn(self, secrets: Mapping[str, Collection[str]], keep: Collection[str] = ()) -> None:
        """Take over which attempts the server lists, and what no log of theirs may show. A log that
        waits for that is read now; those of `keep` wait on. The secrets of an attempt that is not
        listed will never be known, so its log ends where the server has it."""
        waiting = [pump for pump in self._pumps.values() if pump.secrets is None]
        for pump in [pump for pump in waiting if pump.attempt_id not in keep]:
            known = secrets.get(pump.attempt_id)
            pump.secrets = known or ()
            if known is None:
                log.warning("log_not_shipped", attempt_id=pump.attempt_id, why="secrets unknown")
                pump.container_id = ""
                self._finish(pump)
            elif pump.container_id:
                self._start_reader(pump)

    def end(self, attempt_id: str, epoch: int, *, readable: bool) -> None:
        pump = self._find(attempt_id, epoch)
        if pump is None:
            return
        pump.dead = True
        if not readable:
            pump.container_id = ""
            if pump.reader is not None:
                pump.reader.cancel()
            self._finish(pump)

    def drop(self, attempt_id: str, epoch: int) -> None:
        if pump := self._find(attempt_id, epoch):
            self._forget(pump)

    async def close(self) -> None:
        readers = [pump.reader for pump in self._pumps.values() if pump.reader is not None]
        for pump in list(self._pumps.values()):
            self._forget(pump)
        await asyncio.gather(*readers, return_exceptions=True)
        self._masking.close()

    # --- the connection

    @property
    def waiting_bytes(self) -> int:
        """Output that was read and that the server has not stored yet."""
        return self._buffered

    def attempt_ids(self) -> list[str]:
        """Attempts whose log the server does not have whole."""
        return list(self._pumps)

    def connected(self, positions: Iterable[LogPosition], *, with_times: bool = False) -> None:
        """Begin to send, from where the server is; `with_times`: it takes the times of lines."""
        known = {(p.attempt_id, p.stream): p.offset for p in positions}
        self._ready.clear()
        self._connected = True
        self._with_times = with_times
        for pump in list(self._pumps.values()):
            for name, stream in pump.streams.items():
                self._resume(pump, stream, known.get((pump.attempt_id, name), stream.acked))
            self._flush_soon(pump)
        self._frame_due.set()

    def disconnected(self) -> None:
        self._connected = False

    async def next_frame(self) -> LogFrame:
        """Wait for something to send and for free bytes in the window of the connection."""
        while True:
            if self._connected and self._unacked < LOG_WINDOW_BYTES:
                for stream in list(self._ready):
                    del self._ready[stream]
                    if frame := self._take(stream):
                        return frame
            self._frame_due.clear()
            await self._frame_due.wait()

    def ack(self, ack: LogAck) -> None:
        pump = self._pumps.get(ack.attempt_id)
        if pump is None:
            return
        stream = pump.streams[ack.stream]
        with self._counted(stream):
            stream.ack(ack.offset, end=ack.end)
        self._frame_due.set()
        if ack.again and not stream.held:
            self._hold(pump, stream, ack.offset)
        if pump.drained:
            self._forget(pump)
            self._on_drained(pump.attempt_id, pump.epoch)

    # --- inside

    def _find(self, attempt_id: str, epoch: int) -> _Pump | None:
        pump = self._pumps.get(attempt_id)
        return pump if pump is not None and pump.epoch == epoch else None

    def _take(self, stream: LogStream) -> LogFrame | None:
        with self._counted(stream):
            frame = stream.next_frame()
        self._mark(stream)
        return frame if frame is None or self._with_times else replace(frame, times=())

    def _hold(self, pump: _Pump, stream: LogStream, offset: int) -> None:
        """Pause a stream of which the server stored nothing after `offset`; one pause covers all
        its refusals."""
        lost = offset < stream.acked
        stream.held = True
        loop = asyncio.get_running_loop()
        loop.call_later(AGAIN_S, self._send_again, pump, stream, offset if lost else None)

    def _send_again(self, pump: _Pump, stream: LogStream, offset: int | None) -> None:
        if stream.held and self._pumps.get(pump.attempt_id) is pump:
            self._resume(pump, stream, stream.acked if offset is None else offset)

    def _resume(self, pump: _Pump, stream: LogStream, offset: int) -> None:
        with self._counted(stream):
            reread = stream.resume(offset)
        if reread and pump.container_id:
            self._start_reader(pump)
        elif reread:
            stream.end(self._wall())
        self._mark(stream)

    def _start_reader(self, pump: _Pump) -> None:
        if pump.secrets is None:
            return
        if pump.reader is not None:
            pump.reader.cancel()
        pump.reader = asyncio.create_task(self._read(pump))

    async def _read(self, pump: _Pump) -> None:
        failures = 0
        while True:
            for stream in pump.streams.values():
                stream.reopen()
            try:
                await self._read_once(pump)
                break
            except RuntimeFailure as failure:
                gone = failure.code == "container_gone"
            except Exception:
                log.exception("log_reader_broke", attempt_id=pump.attempt_id)
                gone = False
            failures += 1
            if gone or (pump.dead and failures >= READS_OF_THE_DEAD):
                break
            await asyncio.sleep(min(0.1 * 2**failures, READ_AGAIN_MAX_S))
        self._finish(pump)

    async def _read_once(self, pump: _Pump) -> None:
        assert pump.secrets is not None, "not read before they are known"
        automaton = await self._masking.automaton(pump.secrets)
        masks = {name: Mask(automaton) for name in pump.streams}
        timed = {name: LineTimes() for name in pump.streams}
        async with aclosing(self._runtime.logs(pump.container_id)) as chunks:  # type: ignore[type-var]
            async for name, data, times in chunks:
                while self._is_full(pump):
                    self._has_space.clear()
                    await self._has_space.wait()
                if masks[name].idle:
                    self._take_in(pump, pump.streams[name], data, times)
                    continue
                covered = await self._masking.feed(masks[name], data)
                times = timed[name].through(data, covered, times)
                self._take_in(pump, pump.streams[name], covered, times)
        for name, mask in masks.items():
            rest = mask.flush()
            self._take_in(pump, pump.streams[name], rest, timed[name].take(rest))

    def _take_in(self, pump: _Pump, stream: LogStream, data: bytes, times: Sequence[int]) -> None:
        """Runs for every piece of output."""
        buffered = stream.buffered
        stream.feed(data, self._wall(), times)
        self._buffered += stream.buffered - buffered
        if stream.ready:
            self._mark(stream)
        if pump.flush is None:
            self._flush_soon(pump)

    def _is_full(self, pump: _Pump) -> bool:
        buffered = pump.buffered
        full = buffered >= ATTEMPT_BUFFER_BYTES or self._buffered >= TOTAL_BUFFER_BYTES
        return full and buffered > 0

    def _flush_soon(self, pump: _Pump) -> None:
        """Schedule a flush. Small frames are only worth it while a server takes them."""
        uncut = any(stream.uncut for stream in pump.streams.values())
        if self._connected and uncut and pump.flush is None:
            pump.flush = asyncio.get_running_loop().call_later(FLUSH_S, self._flush, pump)

    def _flush(self, pump: _Pump) -> None:
        pump.flush = None
        for stream in pump.streams.values():
            if self._connected and not stream.ready:
                stream.flush(self._wall())
                self._mark(stream)
        self._flush_soon(pump)

    def _finish(self, pump: _Pump) -> None:
        for stream in pump.streams.values():
            stream.end(self._wall())
            self._mark(stream)

    def _mark(self, stream: LogStream) -> None:
        if stream.ready:
            self._ready[stream] = None
            self._frame_due.set()

    def _forget(self, pump: _Pump) -> None:
        pump.close()
        del self._pumps[pump.attempt_id]
        for stream in pump.streams.values():
            self._ready.pop(stream, None)
            self._buffered -= stream.buffered
            self._unacked -= stream.unacked
        self._has_space.set()
        self._frame_due.set()

    @contextlib.contextmanager
    def _counted(self, stream: LogStream) -> Iterator[None]:
        """Keep the sums over all streams true."""
        buffered, unacked = stream.buffered, stream.unacked
        yield
        self._buffered += stream.buffered - buffered
        self._unacked += stream.unacked - unacked
        if stream.buffered < buffered:
            self._has_space.set()
