"""What the watchdog watches ends with what is there."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.agent_specs import spec

from skep_agent.containers import Exit, RuntimeFailure
from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.runtimes.mock import MockRuntime
from skep_agent.shell import lease_guard
from skep_agent.shell.lease_guard import EngineToKill, NoGuard, WatchdogGuard
from skep_agent.shell.operations import Operations
from skep_agent.shell.working_files import Archives
from skep_agent.statedir import Identity

ENGINE = EngineToKill("unix:///nothing/there.sock", "", [])
GONE, HERE = "a" * 64, "b" * 64


def test_what_was_condemned_and_is_gone_is_not_looked_for_for_ever(tmp_path: Path) -> None:
    """The watchdog looks for it among all processes, four times a second."""
    before = WatchdogGuard(tmp_path, ENGINE)
    for container_id in (GONE, HERE):
        before.condemn(container_id)
    before.close(idle=False)
    after = WatchdogGuard(tmp_path, ENGINE)
    after.keep_only([HERE, "c" * 64])
    condemned = after._page.condemned()
    after.close(idle=True)
    assert condemned == {HERE}


class Guard(NoGuard):
    """Remembers what is watched."""

    def __init__(self, *watched: str) -> None:
        self.watched = set(watched)

    def unname(self, container_id: str) -> None:
        self.watched.discard(container_id)


class Emptied(MockRuntime):
    """Someone removes its containers."""

    async def wait(self, container_id: str) -> Exit:
        raise RuntimeFailure("container_gone", "Someone removed it.")


async def test_a_container_that_someone_removed_is_not_watched_any_more(tmp_path: Path) -> None:
    guard, runtime, seen = Guard(GONE), Emptied(), asyncio.Queue[ev.Event]()
    archives = Archives(tmp_path / "archives", Identity("http://x", "n1", "id", "c", "secret"))
    operations = Operations(
        *(runtime, archives, guard, seen.put_nowait),
        *(lambda _: True, lambda _: None, lambda *_: None),
    )
    operations.run(do.Watch(spec().attempt_id, 1, GONE))
    assert await asyncio.wait_for(seen.get(), 30) == ev.Vanished(spec().attempt_id, 1)
    await asyncio.sleep(0)
    await operations.close()
    assert not guard.watched


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_without_memory_for_the_page_it_lies_on_the_disk_and_no_one_dies_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, state = tmp_path / "memory", tmp_path / "state"
    memory.mkdir()
    state.mkdir()
    monkeypatch.setattr(lease_guard, "MEMORY_FOLDER", memory)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", memory], check=True)
    try:
        guard = WatchdogGuard(state, ENGINE)
        names = {f"{number:064x}" for number in range(2000)}
        for name in names:  # would be SIGBUS
            guard.name(name)
        assert guard._page.containers() == names
        guard.close(idle=False)
        subprocess.run(["mount", "-o", "remount,size=8m", memory], check=True)
        before = (state / "watchdog-page").stat().st_ino
        after = WatchdogGuard(state, ENGINE)
        assert after._path.parent == memory
        assert (state / "watchdog-page").stat().st_ino != before  # by which its watchdog leaves
        after.close(idle=True)
    finally:
        subprocess.run(["umount", "--lazy", memory], check=True)
