"""A process beside the task's own in its container, attached to through the engine.

It has the user, the capabilities and the limits of the container, never more. The engine cannot
kill what it attached: therefore a small shell first prints its own process id, which is also its
session, and later another one ends that session.
"""

from __future__ import annotations

import asyncio
import json
import re
import struct
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.frames import Channel
from skep_agent.isolation.files import FILES_DIR
from skep_agent.runtimes.base import Command
from skep_agent.runtimes.docker_engine import ANSWER_TIMEOUT_S, Engine, EngineError

READ_BYTES = 64 * 1024
BEGIN_S = 30.0  # until it printed its process id
# The image's /bin/sh is the tenant's own program, and may write anything before its process id.
EARLY_BYTES = 64 * 1024
ENDED_S = 5.0  # until the engine knows the end of a process that closed its output
POLL_S = 0.05
_PROCESS_ID = re.compile(rb"[0-9]{1,10}")
_HEADER = struct.Struct(">BxxxI")
_CHANNELS = {1: Channel.OUTPUT, 2: Channel.ERROR}
_END_OF_INPUT = b"\x04"  # ^D, as a terminal says it

# CVE-2024-21626: the engine is asked for "/" as working directory, and only this shell, inside,
# goes where the task is. "$1" is that folder, what follows is what to run.
_BEGIN = (
    f'echo $$; cd "$1" 2>/dev/null; shift; [ -r {FILES_DIR}env ] && . {FILES_DIR}env; '
    'if [ $# -gt 0 ]; then exec "$@"; fi; '
    "if [ -x /bin/bash ]; then exec /bin/bash; fi; exec /bin/sh"
)
# Ends all processes of the session "$1": first as a lost terminal would, then for good. The fourth
# number after the name in /proc/*/stat is the session.
_END = """
send() {
  for stat in /proc/[0-9]*/stat; do
    read -r line < "$stat" || continue
    pid=${stat#/proc/}; how=$1
    set -- ${line##*) }
    [ "$4" != "$session" ] || kill "-$how" "${pid%/stat}"
    set -- "$how"
  done 2>/dev/null
}
session=$1; send HUP; sleep 2; send KILL
"""

log = structlog.get_logger(__name__)


class DockerProcess:
    """See `Process`."""

    def __init__(
        self,
        engine: Engine,
        container_id: str,
        exec_id: str,
        command: Command,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._engine = engine
        self._container_id = container_id
        self._exec_id = exec_id
        self._tty = command.tty
        self._reader = reader
        self._writer = writer
        self._early: list[tuple[Channel, bytes]] = []  # read on the way to its process id
        self._session = ""
        self._over = False
        self._channel, self._left = Channel.OUTPUT, 0  # of the record that is being read

    async def begun(self) -> None:
        """Wait until it printed its process id, or why it could not begin. Raises RuntimeFailure
        "exec_failed" when it does neither within BEGIN_S seconds and EARLY_BYTES bytes."""
        try:
            async with asyncio.timeout(BEGIN_S):
                first = await self._first_line()
        except TimeoutError:
            raise RuntimeFailure(
                "exec_failed", f"The image's /bin/sh did not begin within {BEGIN_S:g} s."
            ) from None
        line, _, rest = first.partition(b"\n")
        if _PROCESS_ID.fullmatch(line.strip()):
            self._session, first = line.strip().decode(), rest
        if first:
            self._early.append((Channel.OUTPUT, first))

    async def _first_line(self) -> bytes:
        """Read the output to the end of its first line, or to its end."""
        first, size = bytearray(), 0
        while b"\n" not in first:
            channel, data = await self._read()
            if not data:
                break
            size += len(data)
            if size > EARLY_BYTES:
                raise RuntimeFailure(
                    "exec_failed",
                    f"The image's /bin/sh wrote more than {EARLY_BYTES} bytes before it began:"
                    " it is not a shell.",
                )
            if channel == Channel.OUTPUT:
                first += data
            else:  # what it writes later may overtake
                self._early.append((channel, data))
        return bytes(first)

    async def output(self) -> AsyncGenerator[tuple[Channel, bytes]]:
        while self._early:
            yield self._early.pop(0)
        while True:
            channel, data = await self._read()
            if not data:
                return
            yield channel, data

    async def write(self, data: bytes) -> None:
        with suppress(ConnectionError):  # it ended: its output says so
            self._writer.write(data)
            await self._writer.drain()

    async def end_input(self) -> None:
        if self._tty:
            await self.write(_END_OF_INPUT)
        elif not self._writer.transport.is_closing():
            with suppress(OSError):
                self._writer.write_eof()

    async def resize(self, rows: int, columns: int) -> None:
        with suppress(RuntimeFailure):  # it ended, or did not begin
            await self._engine.call(
                lambda api: api.exec_resize(self._exec_id, height=rows, width=columns)
            )

    async def exit_code(self) -> int:
        deadline = asyncio.get_running_loop().time() + ENDED_S
        while True:
            state = await self._engine.call(lambda api: api.exec_inspect(self._exec_id))
            if not state["Running"] and state["ExitCode"] is not None:
                self._over = True
                return state["ExitCode"]
            if asyncio.get_running_loop().time() > deadline:
                raise RuntimeFailure("exec_failed", "It closed its output and goes on.")
            await asyncio.sleep(POLL_S)

    async def close(self) -> None:
        self._writer.close()
        if self._over or not self._session:
            return
        try:
            end = ["/bin/sh", "-c", _END, "skep", self._session]
            exec_id = await _create(self._engine, self._container_id, end)
            await self._engine.call(lambda api: api.exec_start(exec_id, detach=True))
        except RuntimeFailure as failure:  # the container ended, and with it all that ran in it
            log.info("exec_not_ended", problem=failure.message)

    async def _read(self) -> tuple[Channel, bytes]:
        """Read the next piece of output, at most READ_BYTES; empty at the end."""
        try:
            if self._tty:
                return Channel.OUTPUT, await self._reader.read(READ_BYTES)
            while not self._left:
                kind, self._left = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
                self._channel = _CHANNELS.get(kind, Channel.ERROR)
            data = await self._reader.read(min(self._left, READ_BYTES))
            self._left -= len(data)
        except (asyncio.IncompleteReadError, ConnectionError):
            return Channel.OUTPUT, b""
        return self._channel, data


async def begin(engine: Engine, container: dict[str, Any], command: Command) -> DockerProcess:
    """`container` as the engine describes it. Raises RuntimeFailure "exec_failed"."""
    folder = container["Config"].get("WorkingDir") or "/"
    begin = ["/bin/sh", "-c", _BEGIN, "skep", folder, *command.argv]
    env = {"TERM": "xterm-256color"} if command.tty else {}
    exec_id = await _create(
        engine, container["Id"], begin, stdin=True, tty=command.tty, environment=env
    )
    reader, writer = await _attach(engine, exec_id, command.tty)
    process = DockerProcess(engine, container["Id"], exec_id, command, reader, writer)
    try:
        await process.begun()
    except BaseException:
        await process.close()
        raise
    if command.tty:
        await process.resize(command.rows, command.columns)
    return process


async def _create(engine: Engine, container_id: str, cmd: list[str], **options: Any) -> str:
    try:
        made = await engine.call(
            lambda api: api.exec_create(container_id, cmd, privileged=False, workdir="/", **options)
        )
    except EngineError as error:
        raise error.failure("exec_failed") from None
    return made["Id"]


async def _attach(
    engine: Engine, exec_id: str, tty: bool
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    body = json.dumps({"Detach": False, "Tty": tty}).encode()
    path = await engine.path(f"/exec/{exec_id}/start")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            reader, writer = await engine.connect(READ_BYTES)
            try:
                writer.write(head.encode() + body)
                answer = await reader.readuntil(b"\r\n\r\n")
            except BaseException:
                writer.close()
                raise
    except (OSError, asyncio.IncompleteReadError) as error:
        raise RuntimeFailure("engine_down", f"The Docker engine does not answer: {error}") from None
    status = answer.split(b" ", 2)[1]
    if status not in (b"101", b"200"):
        text = (await reader.read(READ_BYTES)).decode(errors="replace")
        writer.close()
        raise RuntimeFailure("exec_failed", text.strip()[:500])
    return reader, writer
