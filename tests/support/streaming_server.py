"""A server whose answers are long, to see who reads them to their end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def streaming(clients: int, left: list[bool]) -> Iterator[str]:
    """Serve long answers to so many clients, and note whether each left before the end; yield the
    address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for _ in range(clients):
                client, _ = listener.accept()
                with client:
                    client.recv(4096)
                    left.append(_leaves(client))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(60)


def _leaves(client: socket.socket) -> bool:
    try:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(64):
            client.sendall(bytes(1 << 20))
    except OSError:
        return True
    return False
