"""Something that answers "reached" at a port of every address, and ends with its parent."""

from __future__ import annotations

import asyncio
import sys


async def main(port: int) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"reached\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "0.0.0.0", port) as server:
        print("listening", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
