"""Ends an agent whose event loop hangs, so that systemd, Docker or the kubelet start another one.

Its tasks are safe meanwhile: they are adopted by the next agent, or ended by the watchdog with the
lease of the node. Without an end the node would be lost until somebody looks at it.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import threading
import time

import structlog

LOOK_S = 10.0
LOOKS = 12  # in a row that the loop does not answer
SAY_S = 5.0  # for the log: the standard error may be what hangs
EXIT_CODE = 70  # EX_SOFTWARE

log = structlog.get_logger(__name__)


def end_when_hung(
    loop: asyncio.AbstractEventLoop, look_s: float = LOOK_S, looks: int = LOOKS
) -> None:
    """End this process with EXIT_CODE when the loop has not answered for so many looks of so many
    seconds, with the stacks of all threads on the standard error. A process that was stopped for
    long, as by SIGSTOP or with its machine, misses one look."""
    threading.Thread(target=_watch, args=(loop, look_s, looks), daemon=True).start()


def _watch(loop: asyncio.AbstractEventLoop, look_s: float, looks: int) -> None:
    missed = 0
    while missed < looks:
        answered = threading.Event()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # closed: the agent ends
            return
        if answered.wait(look_s):
            missed = 0
            time.sleep(look_s)
        else:
            missed += 1
    said = threading.Thread(target=_say, args=(look_s * looks,), daemon=True)
    said.start()
    said.join(SAY_S)
    os._exit(EXIT_CODE)


def _say(seconds: float) -> None:
    log.critical("agent_hangs", seconds=seconds)
    faulthandler.dump_traceback(all_threads=True)
