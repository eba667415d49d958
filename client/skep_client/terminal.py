"""This terminal and standard input, joined to a stream."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from skep_client.streams import ERROR, PIECE_BYTES, Stream

INPUT_FD, OUTPUT_FD, ERROR_FD = 0, 1, 2


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def size() -> tuple[int, int]:
    """Rows and columns, whatever COLUMNS says: the other side draws on this terminal."""
    try:
        columns, rows = os.get_terminal_size(OUTPUT_FD)
    except OSError:
        return 24, 80
    return max(rows, 1), max(columns, 1)


def join(stream: Stream) -> None:
    """Until the stream ends: standard input goes in, what comes out is written here."""
    threading.Thread(target=_send_input, args=[stream], daemon=True).start()
    for channel, data in stream.output():
        _write(ERROR_FD if channel == ERROR else OUTPUT_FD, data)


@contextmanager
def raw(stream: Stream) -> Iterator[None]:
    """Every key goes to the other side, also Ctrl-C; changes of the window size are sent."""
    import termios
    import tty

    before = termios.tcgetattr(INPUT_FD)
    # A signal may come while this thread writes: another one sends the size.
    changes: queue.SimpleQueue[bool] = queue.SimpleQueue()
    threading.Thread(target=_send_size, args=[stream, changes], daemon=True).start()
    old = signal.signal(signal.SIGWINCH, lambda *_: changes.put(True))
    try:
        tty.setraw(INPUT_FD)
        yield
    finally:
        signal.signal(signal.SIGWINCH, old)
        changes.put(False)
        termios.tcsetattr(INPUT_FD, termios.TCSADRAIN, before)


def _send_size(stream: Stream, changes: queue.SimpleQueue[bool]) -> None:
    while changes.get():
        stream.resize(*size())


def _send_input(stream: Stream) -> None:
    try:
        while data := os.read(INPUT_FD, PIECE_BYTES):
            stream.write(data)
    except OSError:  # there is none
        pass
    stream.end_input()


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
