"""The child side of `core.parse_pool`: reads text of users under limits, without Django or secrets.

The server of forks is started by the pool. It imports the parsers once and forks a worker for each
connection that it is handed, in some milliseconds. A worker answers one request after the other:

    frame   = length (4 bytes, big endian) + JSON
    request = {"call": name, "text": …, "args": {…}}; a file comes as a descriptor with it
    answer  = {"ok": …} or {"error": {code, message, details, status}}
              or {"spent": "time" | "memory"}, after which the worker ends

It never imports Django: what a hostile text could reach here is neither the database nor a key.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

LENGTH = struct.Struct(">I")
MIB = 1024**2
MAX_FRAME = 32 * MIB
# After this many requests, or when it has grown this much, a worker ends and is replaced.
REQUESTS = 2_000
GROWTH_MIB = 64
# Seconds after which the kernel ends a worker that did not notice its CPU limit.
HARD_S = 2
CALLS = {
    "read": "skep_platform.jobs.submission.reading:read_call",
    "read_all": "skep_platform.jobs.submission.reading:read_all_call",
    "locate": "skep_platform.jobs.submission.reading:locate_call",
    "rename": "skep_platform.jobs.submission.reading:rename_call",
    "revise": "skep_platform.jobs.submission.reading:revise_call",
    "publish": "skep_platform.jobs.submission.reading:publish_call",
    "convert": "skep_platform.jobs.submission.reading:convert_call",
    "archive": "skep_platform.files.contents:inspect_call",
}
FREE = "free"  # what a worker says when it is started


class OutOfTime(BaseException):
    """The CPU time of one request is spent. No parser may catch it as an error of its own."""


def main() -> None:
    """Fork workers on request until the pool closes its socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    cpu_s, memory_mib = float(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    calls = {name: _found(target) for name, target in CALLS.items()}
    with contextlib.suppress(ConnectionError):
        while True:
            data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not data:
                return
            if os.fork() == 0:
                control.close()
                _serve(socket.socket(fileno=descriptors[0]), calls, cpu_s, memory_mib)
                os._exit(0)
            os.close(descriptors[0])


def send(to: socket.socket, message: Any, descriptor: int | None = None) -> None:
    """Send one frame, and a file with it. Raises OSError."""
    body = json.dumps(message).encode()
    frame = LENGTH.pack(len(body)) + body
    sent = socket.send_fds(to, [frame], [] if descriptor is None else [descriptor])
    to.sendall(memoryview(frame)[sent:])


def receive(source: socket.socket) -> tuple[Any, list[int]]:
    """Return the next frame and what came with it. Raises EOFError and OSError."""
    data, descriptors, _, _ = socket.recv_fds(source, 64 * 1024, 1)
    buffer = bytearray(data)
    while len(buffer) < LENGTH.size:
        buffer += _more(source, LENGTH.size - len(buffer)) if buffer else _end()
    size = LENGTH.unpack_from(buffer)[0]
    if size > MAX_FRAME:
        raise EOFError
    while len(buffer) < LENGTH.size + size:
        buffer += _more(source, LENGTH.size + size - len(buffer))
    return json.loads(memoryview(buffer)[LENGTH.size :].tobytes()), descriptors


def _serve(
    own: socket.socket, calls: dict[str, Callable[..., Any]], cpu_s: float, memory_mib: int
) -> None:
    _confine(memory_mib)
    most = _resident_mib() + GROWTH_MIB
    signal.signal(signal.SIGPROF, _out_of_time)
    send(own, FREE)
    for left in reversed(range(REQUESTS)):
        try:
            request, descriptors = receive(own)
        except (EOFError, OSError):
            return
        answer = _answer(calls, request, descriptors, cpu_s)
        last = not left or "spent" in answer or _resident_mib() > most
        try:
            send(own, {**answer, "last": last})
        except OSError:
            return
        if last:
            return


def _answer(
    calls: dict[str, Callable[..., Any]], request: Any, descriptors: list[int], cpu_s: float
) -> dict[str, Any]:
    try:
        _allow(cpu_s)
        try:
            work = calls[request["call"]]
            if descriptors:
                with os.fdopen(descriptors[0], "rb") as file:
                    return {"ok": work(file, **request["args"])}
            return {"ok": work(**request["args"])}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except OutOfTime:
        return {"spent": "time"}
    except MemoryError:
        return {"spent": "memory"}
    except RecursionError:
        return {"spent": "depth"}
    except Exception as error:
        as_dict = getattr(error, "as_dict", None)
        if as_dict is None:
            raise  # a defect: the pool answers 500, and standard error has the traceback
        return {"error": {**as_dict(), "status": getattr(error, "status", 400)}}


def _allow(cpu_s: float) -> None:
    """Let the next request use this much CPU time. Python raises `OutOfTime`; where no Python code
    runs meanwhile, the kernel ends the process a little later."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime + cpu_s) + HARD_S
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _confine(memory_mib: int) -> None:
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + memory_mib * MIB
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _resident_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / MIB


def _out_of_time(*_: Any) -> None:
    raise OutOfTime


def _found(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _more(source: socket.socket, most: int) -> bytes:
    return source.recv(min(most, MIB)) or _end()


def _end() -> bytes:
    raise EOFError


if __name__ == "__main__":
    main()
