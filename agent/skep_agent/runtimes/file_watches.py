"""Who waits for a file to grow is woken by one inotify instance of the kernel for all."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable

_MODIFY, _CLOSE_WRITE, _OVERFLOW, _IGNORED, _ONESHOT = 0x2, 0x8, 0x4000, 0x8000, 0x80000000
_EVENT = struct.Struct("iIII")  # watch, what happened, cookie, length of the name that follows
_READ_BYTES = 64 * 1024

Wake = Callable[[], None]


class FileWatches:
    """Calls are made on one event loop. A wake is a hint to look: it may come without a reason."""

    def __init__(self) -> None:
        self._fd = -1
        self._wakes: dict[int, set[Wake]] = {}  # by the kernel's number of the watch

    def next_write(self, path: str, wake: Wake) -> None:
        """Call `wake` at the next write to a file, once: a flood of writes costs nothing until the
        reader asks again. Raises OSError."""
        self._add(path, _MODIFY | _ONESHOT, wake)

    def closes(self, folder: str, wake: Wake) -> None:
        """Call `wake` each time that a writer closes a file in a folder. Raises OSError."""
        self._add(folder, _CLOSE_WRITE, wake)

    def forget(self, *wakes: Wake) -> None:
        """Call these no more."""
        for watch, waiting in list(self._wakes.items()):
            waiting.difference_update(wakes)
            if not waiting:
                del self._wakes[watch]
                _LIBC.inotify_rm_watch(self._fd, watch)  # may be over already

    def close(self) -> None:
        """Release the kernel's instance."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._wakes.clear()

    def _add(self, path: str, events: int, wake: Wake) -> None:
        if self._fd < 0:
            fd = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            asyncio.get_running_loop().add_reader(fd, self._read)
            self._fd = fd
        watch = _checked(_LIBC.inotify_add_watch(self._fd, os.fsencode(path), events))
        self._wakes.setdefault(watch, set()).add(wake)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, event, _, name = _EVENT.unpack_from(data, at)
            at += _EVENT.size + name
            if event & _OVERFLOW:
                woken = set().union(*self._wakes.values())
            elif event & _IGNORED:  # the watch is over
                woken = self._wakes.pop(watch, set())
            else:
                woken = self._wakes.get(watch, set())
            for wake in list(woken):
                wake()


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
