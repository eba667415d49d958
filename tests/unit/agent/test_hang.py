"""An agent whose event loop hangs ends, and one that was stopped for a while goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

LOOK_S, LOOKS = 0.5, 4
AGENT = f"""
import asyncio, sys, time
from skep_agent.threads import end_when_hung

def stuck():
    time.sleep(60)

async def agent():
    end_when_hung(asyncio.get_running_loop(), {LOOK_S}, {LOOKS})
    print("runs", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    if "stuck" in sys.argv:
        stuck()

asyncio.run(agent())
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert agent.stdout
    assert agent.stdout.readline() == "runs\n"
    return agent


def test_an_agent_that_hangs_ends_with_the_stacks_of_its_threads():
    agent = start("stuck")
    said, stacks = agent.communicate("go on\n", timeout=60)
    assert agent.returncode == 70
    assert "agent_hangs" in said + stacks
    assert "in stuck" in stacks


def test_an_agent_that_was_stopped_for_longer_goes_on():
    agent = start()
    agent.send_signal(signal.SIGSTOP)
    time.sleep(2 * LOOK_S * LOOKS)
    agent.send_signal(signal.SIGCONT)
    time.sleep(LOOK_S * LOOKS)
    assert agent.poll() is None
    agent.communicate("go on\n", timeout=60)
    assert agent.returncode == 0
