"""A process beside a mock task: it repeats what it is told, so that streams are tried without an
engine.

`echo WORDS` says its words, `size` the size of its terminal whenever that changes, `fail N` ends
with N; anything else, a shell too, gives its input back until that ends, or until a line `exit N`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from skep_agent.protocol import Channel
from skep_agent.runtimes.base import Command

# Of output that nobody read yet; its writer then waits.
PIECES = 16


class MockProcess:
    def __init__(self, command: Command) -> None:
        self.command = command
        self.closed = False
        self._code = 0
        self._output: asyncio.Queue[bytes | None] = asyncio.Queue(PIECES)
        verb, *words = command.argv or ("sh",)
        self._tells_size = verb == "size"
        if verb == "echo":
            self._output.put_nowait(" ".join(words).encode() + b"\n")
            self._output.put_nowait(None)
        elif verb == "fail":
            self._code = int(words[0])
            self._output.put_nowait(None)
        elif verb == "size":
            self._output.put_nowait(_size(command.rows, command.columns))

    async def output(self) -> AsyncGenerator[tuple[Channel, bytes]]:
        while (data := await self._output.get()) is not None:
            yield Channel.OUTPUT, data

    async def write(self, data: bytes) -> None:
        if data.startswith(b"exit "):
            self._code = int(data.split()[1])
            await self._output.put(None)
        else:
            await self._output.put(data)

    async def end_input(self) -> None:
        await self._output.put(None)

    async def resize(self, rows: int, columns: int) -> None:
        if self._tells_size:
            await self._output.put(_size(rows, columns))

    async def exit_code(self) -> int:
        return self._code

    async def close(self) -> None:
        self.closed = True


def _size(rows: int, columns: int) -> bytes:
    return f"{rows} {columns}\n".encode()
