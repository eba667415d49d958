"""Sending a signal to those processes of a container that have a handler for it, and to no others.

The default action of SIGUSR1 is death. Launchers (torchrun, accelerate, a shell script) have no
handler and start their ranks in sessions of their own: a signal for the whole process group kills
the launcher and never reaches a rank. So every process of the container's cgroup is looked at, and
those are signalled whose `SigCgt` in /proc/<pid>/status says that they catch the signal. Processes
that ignore it, or wait for it with sigwait(), are left alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skep_agent.runtimes.base import Command, Process

PROC = Path("/proc")
# bash with a trap for EXIT catches all of these only to run that trap and die. From outside it
# cannot be seen whether it has a trap for one of them, too. Go catches SIGPROF as well, and does
# not die.
_EXIT_TRAP = (
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM),
    *(signal.SIGXCPU, signal.SIGXFSZ, signal.SIGVTALRM, signal.SIGSYS),
)
_EXIT_TRAP_MASK = sum(1 << (number - 1) for number in _EXIT_TRAP)
_NOT_BASH_MASK = 1 << (signal.SIGPROF - 1)

# The same, run inside of the container by an exec call: for an agent that does not see the
# processes of the host. "$1" is the number of the signal; 32 bits hold all that can be asked for.
# Exit code 0: a process handles it; UNHANDLED: none does.
UNHANDLED = 3
SCRIPT = f"""\
signal_all() {{
  code={UNHANDLED}
  for status in /proc/[0-9]*/status; do
    pid=${{status#/proc/}} pid=${{pid%/status}} caught=0 parent=0
    if [ "$pid" = $$ ]; then continue; fi
    while read -r key value; do
      case $key in
        PPid:) parent=$value ;;
        SigCgt:) caught=$((0x${{value#????????}})) ;;
      esac
    done < "$status" 2>/dev/null
    if [ $((caught >> ($1 - 1) & 1)) = 0 ]; then continue; fi
    doubt=0
    if [ $((caught & {_EXIT_TRAP_MASK})) = {_EXIT_TRAP_MASK} ] &&
      [ $((caught & {_NOT_BASH_MASK})) = 0 ]; then doubt=1; fi
    if [ $doubt != "$2" ]; then continue; fi
    if kill "-$1" "$pid" && ! {{ [ "$1" = {int(signal.SIGTERM)} ] && [ "$parent" -le 1 ]; }}
    then code=0; fi
  done
  return $code
}}
signal_all "$1" 0 || signal_all "$1" 1
"""


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    caught: int  # bit n - 1 is set for signal n

    def catches(self, number: int) -> bool:
        return bool(self.caught >> (number - 1) & 1)

    @property
    def in_doubt(self) -> bool:
        """Whether it may be a bash that catches the signal only to die in order."""
        full = self.caught & _EXIT_TRAP_MASK == _EXIT_TRAP_MASK
        return full and not self.caught & _NOT_BASH_MASK


async def send(
    container: dict[str, Any], name: str, run: Callable[[Command], Awaitable[Process]]
) -> bool:
    """Send the signal `name` ("SIGUSR1") to the processes of a running container, as the engine
    describes it, that catch it; return whether there was any. `run` begins a process in it: for an
    agent that does not see the host's."""
    number = int(signal.Signals[name])
    container_id, init_pid = container["Id"], container["State"]["Pid"]
    if sees_host(container_id, init_pid):
        return await asyncio.to_thread(signal_catching, container_id, init_pid, number)
    process = await run(Command(("/bin/sh", "-c", SCRIPT, "skep", str(number))))
    try:
        async for _ in process.output():
            pass
        return await process.exit_code() != UNHANDLED
    finally:
        await process.close()


def sees_host(container_id: str, init_pid: int) -> bool:
    """Return whether `init_pid`, as the engine reports it, is a process of the container here, too:
    not so for an agent in a PID namespace of its own."""
    return init_pid > 0 and _belongs(init_pid, container_id)


def signal_catching(container_id: str, init_pid: int, number: int) -> bool:
    """Send signal `number` once to each process of the container that catches it; return whether
    there was any. `init_pid` is the container's first process as the host numbers it."""
    members = list(_members(container_id))
    catching = [process for process in members if process.catches(number)]
    sure = [process for process in catching if not process.in_doubt]
    # Where no other process handles it, nothing is lost with a bash that dies of it.
    for chosen in (sure, [process for process in catching if process.in_doubt]):
        reached = [one for one in chosen if _send(one.pid, container_id, number)]
        # The shell that runs the task's command has a trap for SIGTERM that saves nothing.
        own = {init_pid, *_oldest_child(init_pid, members)} if number == signal.SIGTERM else set()
        if any(process.pid not in own for process in reached):
            return True
    return False


def _members(container_id: str) -> Iterator[_Process]:
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and _belongs(int(entry.name), container_id):
            process = _read(int(entry.name))
            if process is not None:
                yield process


def _belongs(pid: int, container_id: str) -> bool:
    """Whether its cgroup, of version 1 or 2, is the container's: engines name it by the id."""
    try:
        return container_id in (PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return False


def _read(pid: int) -> _Process | None:
    """None when it is gone."""
    try:
        lines = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return _Process(pid, int(fields["PPid"]), int(fields.get("SigCgt", "0"), 16))


def _oldest_child(parent: int, members: list[_Process]) -> list[int]:
    children = [process.pid for process in members if process.parent == parent]
    return sorted(children, key=_started)[:1]


def _started(pid: int) -> int:
    """In clock ticks since boot; 0 when it is gone."""
    try:
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def _send(pid: int, container_id: str, number: int) -> bool:
    """Looks again once the process is held: its number may be another's by now, or it may have
    become another program that does not catch the signal."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError:
        handle = -1  # a kernel before 5.3
    try:
        now = _read(pid) if _belongs(pid, container_id) else None
        if now is None or not now.catches(number):
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True
