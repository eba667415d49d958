"""A kept child is started again, stopped kindly, and killed when it does not listen."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable

import pytest

from skep_platform.onebox.children import Keeper, Program, adopting

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER


@pytest.fixture
async def keep(tmp_path):
    keepers = []

    def start(code: str, pid: int | None = None) -> Keeper:
        program = Program("child", (sys.executable, "-c", code), env={})
        keepers.append(Keeper(program, tmp_path))
        keepers[-1].start(pid)
        return keepers[-1]

    yield start
    for keeper in keepers:
        await keeper.stop(patience_s=0)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def is_up(keeper: Keeper) -> bool:
    return keeper.pid is not None and "up" in keeper.last_words()


async def test_a_killed_child_is_started_again(keep):
    keeper = keep(SLEEPER)
    await until(lambda: is_up(keeper))
    first = keeper.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: keeper.pid not in (None, first))
    assert keeper.restarts.count == 1


async def test_an_adopted_child_is_kept_as_one_that_was_started(keep, tmp_path):
    """Its parent, a shell, is gone when it is adopted."""
    script = f'{sys.executable} -c "{SLEEPER}" >{tmp_path}/child.log 2>&1 & echo $!'
    with adopting():
        shell = await asyncio.create_subprocess_exec("sh", "-c", script, stdout=PIPE)
        said, _ = await shell.communicate()
    keeper = keep(SLEEPER, pid := int(said))
    await until(lambda: is_up(keeper))
    assert keeper.pid == pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: keeper.pid not in (None, pid))
    assert keeper.restarts.count == 1
    with pytest.raises(ProcessLookupError):  # it is no zombie
        os.kill(pid, 0)


async def test_a_child_that_ends_by_itself_is_started_again(keep):
    keeper = keep("print('x')")
    await until(lambda: keeper.restarts.count >= 2)


async def test_a_child_that_listens_is_stopped_kindly(keep):
    keeper = keep(SLEEPER)
    await until(lambda: is_up(keeper))
    process = keeper.process
    await keeper.stop(patience_s=60)
    assert process.returncode == -signal.SIGTERM
    assert keeper.restarts.count == 0


async def test_a_deaf_child_is_killed(keep):
    keeper = keep(DEAF)
    await until(lambda: is_up(keeper))
    process = keeper.process
    await keeper.stop(patience_s=0.1)
    assert process.returncode == -signal.SIGKILL


async def test_a_child_between_two_lives_stays_dead(keep):
    keeper = keep("")
    await until(lambda: keeper.restarts.count == 3 and keeper.pid is None)
    await keeper.stop(patience_s=60)
    assert keeper.pid is None


async def test_output_is_kept_in_a_file_of_our_own(keep, tmp_path):
    keeper = keep(SLEEPER)
    await until(lambda: is_up(keeper))
    assert (tmp_path / "child.log").stat().st_mode & 0o777 == 0o600


async def test_a_program_that_is_not_there_is_a_death_like_any_other(tmp_path):
    keeper = Keeper(Program("gone", ("/no/such/program",), env={}), tmp_path)
    keeper.start()
    await until(lambda: keeper.restarts.count >= 2)
    assert "No such file" in keeper.last_words()
    await keeper.stop(patience_s=1)
