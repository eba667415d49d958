"""The checkpoint signal reaches the ranks whatever launched them, and kills no launcher."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import docker
import pytest
from tests.support.docker_tasks import make_spec
from tests.support.torch_image import python_image

from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker

RANK = r"""
import os, signal, sys, time
rank, asked = sys.argv[1], []
signal.signal(getattr(signal, sys.argv[2]), lambda *_: asked.append(1))
os.write(1, f"rank {rank} ready\n".encode())
while not asked:
    time.sleep(0.05)
time.sleep(0.3)
os.write(1, f"rank {rank} asked {len(asked)} times\n".encode())
"""
# As accelerate and torchrun do: sessions of their own, and no handler in the launcher.
LAUNCHER = """
import subprocess, sys
ranks = [
    subprocess.Popen([sys.executable, "/tmp/rank.py", str(n), sys.argv[1]], start_new_session=True)
    for n in range(3)
]
sys.exit(max(rank.wait() for rank in ranks))
"""
PLAIN = "for n in 0 1 2; do setsid python /tmp/rank.py $n NAME & done; wait; echo over"
LAUNCHERS = {
    "a shell that starts ranks in sessions of their own": PLAIN,
    "a launcher without a handler": "python /tmp/launcher.py NAME; echo over",
    "a bash with a trap for its own end": f"bash -c 'trap \"echo bye\" EXIT; {PLAIN}'",
    "a launcher below other shells": 'sh -c "cd /; (python /tmp/launcher.py NAME)"; echo over',
}


@pytest.fixture(scope="module")
def image(docker_engine: docker.DockerClient) -> str:
    return python_image(docker_engine)


def command(script: str, **programs: str) -> str:
    """A script that finds these programs, and those of this file, below /tmp."""
    files = {"rank": RANK, "launcher": LAUNCHER, **programs}
    put = [f"cat > /tmp/{name}.py <<'END'\n{text}\nEND" for name, text in files.items()]
    return "\n".join([*put, script])


class Task:
    """A running container and what it wrote."""

    def __init__(self, runtime: DockerRuntime, engine: docker.DockerClient, container_id: str):
        self.runtime, self.id = runtime, container_id
        self.container = engine.containers.get(container_id)

    @property
    def lines(self) -> list[str]:
        return self.container.logs(stderr=False).decode().splitlines()

    async def until(self, done: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + 60
        while not done(self.lines):
            assert time.monotonic() < deadline, self.container.logs().decode()
            await asyncio.sleep(0.05)

    async def ready(self, ranks: int) -> None:
        await self.until(lambda lines: sum(line.endswith("ready") for line in lines) == ranks)


@pytest.fixture
def begin(runtime: DockerRuntime, image: str, docker_engine: docker.DockerClient):
    async def begin(script: str, programs=(), **fields) -> Task:
        spec = make_spec(image, command(script, **dict(programs)), cpus=2, memory_mb=256, **fields)
        container_id = await runtime.create(spec)
        await runtime.start(container_id)
        return Task(runtime, docker_engine, container_id)

    return begin


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGHUP"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
async def test_finding_j1_each_rank_is_asked_once_and_the_launcher_lives(begin, launcher, name):
    task = await begin(LAUNCHERS[launcher].replace("NAME", name), checkpoint_signal=name)
    await task.ready(3)

    assert await task.runtime.signal(task.id, name)

    assert (await task.runtime.wait(task.id)).exit_code == 0
    asked = sorted(line for line in task.lines if "asked" in line)
    assert asked == [f"rank {n} asked 1 times" for n in range(3)]
    assert task.lines[-1] in ("over", "bye")


LEFT = """
import signal, sys, time
number = signal.SIGUSR1
if sys.argv[1] == "ignores": signal.signal(number, signal.SIG_IGN)
if sys.argv[1] == "blocks": signal.pthread_sigmask(signal.SIG_BLOCK, [number])
print("it ready", flush=True)
time.sleep(600)
"""


def status(pid: str) -> str:
    return Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize("how", ["ignores", "blocks", "has the default"])
async def test_finding_j1_a_process_without_a_handler_is_left_alone(begin, how):
    task = await begin(f"python /tmp/left.py '{how}'", programs={"left": LEFT})
    await task.ready(1)

    assert not await task.runtime.signal(task.id, "SIGUSR1")

    (process,) = [p for p in task.container.top()["Processes"] if p[-1].endswith(how)]
    pending = status(process[1])
    assert "SigPnd:\t0000000000000000" in pending
    assert "ShdPnd:\t0000000000000000" in pending


async def test_finding_j1_the_shell_around_a_task_counts_for_no_one(begin):
    """It has a trap for SIGTERM of the agent's making."""
    task = await begin("echo it ready; sleep 600; echo over")
    await task.ready(1)
    assert not await task.runtime.signal(task.id, "SIGTERM")
    assert not await task.runtime.signal(task.id, "SIGUSR1")
    assert task.lines == ["it ready"]


async def test_finding_j1_a_trap_of_the_command_itself_is_a_handler(begin):
    task = await begin("trap 'echo saved; exit 0' USR1; echo it ready; while :; do sleep 0.1; done")
    await task.ready(1)
    assert await task.runtime.signal(task.id, "SIGUSR1")
    await task.runtime.wait(task.id)
    assert task.lines == ["it ready", "saved"]


ELSEWHERE = """
import asyncio, sys
from skep_agent.isolation.create import NodeFacts
from skep_agent.runtimes.docker import DockerRuntime

async def main():
    runtime = DockerRuntime(NodeFacts("none", "none"))
    print(await runtime.signal(sys.argv[1], sys.argv[2]))
    await runtime.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("launcher", list(LAUNCHERS)[1:3])
async def test_finding_j1_also_by_an_agent_that_does_not_see_the_processes_of_the_host(
    begin, launcher
):
    task = await begin(LAUNCHERS[launcher].replace("NAME", "SIGUSR1"))
    await task.ready(3)
    unshared = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ELSEWHERE]

    def elsewhere(name: str) -> str:
        result = subprocess.run(
            [*unshared, task.id, name], capture_output=True, text=True, check=True
        )
        return result.stdout.strip()

    if "bash" not in launcher:  # which may have a trap: it is asked where no one else is
        assert await asyncio.to_thread(elsewhere, "SIGUSR2") == "False"
    assert await asyncio.to_thread(elsewhere, "SIGUSR1") == "True"

    await task.runtime.wait(task.id)
    assert sum("asked 1 times" in line for line in task.lines) == 3
    assert task.lines[-1] in ("over", "bye")
