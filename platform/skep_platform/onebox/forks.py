"""Servers as forks of one process that has loaded all modules: each would spend seconds of a core
on that, and hold a copy. They become children of the supervisor, as if it had started them. One
that dies is started by itself."""

from __future__ import annotations

import gc
import os
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skep_platform.onebox.children import be_nice, die_with_parent, name_process


@dataclass(frozen=True, slots=True)
class Server:
    """A program of ours: a module that Python runs, with its arguments, and the file of its log."""

    name: str
    module: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    log: str
    nice: int
    death_signal: int


def load() -> None:
    """Load what the servers need. It opens no connection and starts no thread."""
    import uvicorn.main  # noqa: F401
    from django.urls import get_resolver

    from skep_platform.celery import app

    app.loader.import_default_modules()
    _ = get_resolver().url_patterns
    gc.freeze()  # pages that no one writes are shared


def fork(servers: Sequence[Server]) -> dict[str, int]:
    """Fork the servers and return their process ids by name: none where this process has other
    threads, whose locks no fork would ever release. In a fork this does not return."""
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return {}
    return {server.name: _orphan(server) for server in servers}


def _orphan(server: Server) -> int:
    """Fork twice: the parent between ends at once, and the supervisor adopts the second fork."""
    supervisor = os.getppid()
    reader, writer = os.pipe()
    between = os.fork()
    if between:
        os.close(writer)
        pid = int(os.read(reader, 20))
        os.close(reader)
        os.waitpid(between, 0)
        return pid
    between = os.getpid()
    if pid := os.fork():
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.close(reader)
    os.close(writer)
    while os.getppid() == between:
        time.sleep(0.001)
    _become(server, supervisor)
    sys.exit()


def _become(server: Server, supervisor: int) -> None:
    from django.conf import settings

    os.setsid()
    name_process(f"skep-{server.name}")
    be_nice(server.nice)
    die_with_parent(server.death_signal, supervisor)
    log = os.open(server.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    os.environ.clear()
    os.environ.update(server.env)
    # Of the settings the only one in which servers differ.
    settings.SKEP_METRICS_LISTEN = server.env.get("SKEP_METRICS_LISTEN", "")
    gc.enable()
    sys.argv = [server.module, *server.arguments]
    runpy.run_module(server.module, run_name="__main__", alter_sys=True)
