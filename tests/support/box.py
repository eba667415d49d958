"""A whole Skep of its own, for tests and benchmarks: `skep up` in a temporary home."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg

from skep_platform.onebox.engines import DATABASE_USER, free_port
from skep_platform.onebox.home import Home

READY_WITHIN_S = 90


@dataclass(frozen=True, slots=True)
class Box:
    url: str
    token: str
    home: Path
    supervisor_pid: int

    def api(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60)

    def pids(self) -> list[int]:
        """The supervisor's descendants, itself not counted."""
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                after_name = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
        found, queue = [], [self.supervisor_pid]
        while queue:
            below = children.get(queue.pop(), [])
            found += below
            queue += below
        return found

    def children(self) -> dict[str, int]:
        """Process id of each part that the supervisor keeps, by name."""
        status = Home(self.home).read_status()
        return {child["name"]: child["pid"] for child in status["children"] if child["pid"]}

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the box's own database, as a witness apart from the API."""
        state = self.home / "engines"
        port = (state / "postgres" / "postmaster.pid").read_text().splitlines()[3]
        password = (state / "secrets" / "postgres").read_text()
        address = f"host=127.0.0.1 port={port} user={DATABASE_USER} dbname=postgres"
        with psycopg.connect(address, password=password) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[arg-type]


@contextmanager
def box(*options: str, **environment: str) -> Iterator[Box]:
    """`options` go to `skep up`. Everything is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="skep-box-", dir="/var/tmp") as folder:
        home = Path(folder) / "home"
        port = free_port()
        env = {k: v for k, v in os.environ.items() if not k.startswith("SKEP_")}
        env |= {"SKEP_HOME": str(home), **environment}
        command = [sys.executable, "-m", "skep_platform.onebox", "up", "--port", str(port)]
        process = subprocess.Popen(
            [*command, *options], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _until_ready(home, process)
            yield Box(url, (home / "operator-token").read_text().strip(), home, process.pid)
        finally:
            process.terminate()
            process.wait(30)


def _until_ready(home: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while Home(home).read_status().get("phase") != "ready":
        if process.poll() is not None or time.monotonic() > deadline:
            logs = "\n".join(str(p) for p in sorted((home / "log").glob("*")))
            raise RuntimeError(f"skep up did not get ready; its logs were:\n{logs}")
        time.sleep(0.05)
