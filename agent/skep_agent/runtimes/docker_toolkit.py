"""The version of NVIDIA's container toolkit, whose hook runs as root on the node."""

from __future__ import annotations

import asyncio
import re

# Newer and older names of its command line.
COMMANDS = (("nvidia-ctk", "--version"), ("nvidia-container-cli", "--version"))
TIMEOUT_S = 10.0
_VERSION = re.compile(r"version:?\s+v?(\d+(?:\.\d+)+\S*)", re.IGNORECASE)


async def version() -> str:
    """Return "1.17.8", or "" where it is not installed or does not say."""
    for command in COMMANDS:
        if found := _VERSION.search(await _output(*command)):
            return found[1]
    return ""


async def _output(*command: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode(errors="replace")
