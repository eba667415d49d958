"""Either end of a TCP connection: `network_peer` answers, `network_peer HOST PORT` measures."""

from __future__ import annotations

import json
import socket
import sys
import time

from benchmarks.report import percentile

SECONDS = 3.0
ROUND_TRIPS = 5000
BLOCK = bytes(128 * 1024)


def serve() -> None:
    """A connection's first byte says what it is for: b"t" to swallow all, b"l" to send it back."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _answer(connection)


def _answer(connection: socket.socket) -> None:
    kind = connection.recv(1)
    taken = 0
    while data := connection.recv(1024 * 1024):
        taken += len(data)
        if kind == b"l":
            connection.sendall(data)
    if kind == b"t":
        connection.sendall(taken.to_bytes(8, "big"))


def measure(host: str, port: int) -> dict[str, float]:
    trips = sorted(_latencies(host, port))
    return {
        "throughput": _throughput(host, port),
        "latency_p50": percentile(trips, 50) * 1e6,
        "latency_p99": percentile(trips, 99) * 1e6,
    }


def _throughput(host: str, port: int) -> float:
    """Gbit/s that arrived, from the first byte to the answer that all of it did."""
    with socket.create_connection((host, port)) as connection:
        start = time.perf_counter()
        connection.sendall(b"t")
        while time.perf_counter() - start < SECONDS:
            connection.sendall(BLOCK)
        connection.shutdown(socket.SHUT_WR)
        arrived = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
        return arrived * 8 / (time.perf_counter() - start) / 1e9


def _latencies(host: str, port: int) -> list[float]:
    """Measure the seconds of one byte there and back."""
    found = []
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"l")
        for _ in range(ROUND_TRIPS):
            start = time.perf_counter()
            connection.sendall(b"x")
            connection.recv(1)
            found.append(time.perf_counter() - start)
    return found


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        serve()
