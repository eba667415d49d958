"""Celery workers and beats in processes of their own, on the test's database and broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from django.db import connection
from tests.support.gateway_server import environment, wait_until

SCHEDULER = ("worker", "-Q", "scheduler", "-P", "solo")
WORKER = ("worker", "-Q", "default", "-P", "threads", "-c", "2")
BEAT = ("beat",)
START_S = 240.0  # on a machine that is busy otherwise


class CeleryProcess:
    """`celery -A skep_platform ARGUMENTS`, as the chart starts it, with the test's prefix."""

    def __init__(self, arguments: Sequence[str] = SCHEDULER, **more: str) -> None:
        self._arguments = arguments
        self._environment = more
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> CeleryProcess:
        self._folder = TemporaryDirectory(prefix="skep-test-celery-")
        self._log = Path(self._folder.name) / "log"
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.signal(signal.SIGKILL)
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def said(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "tests.support.worker_app",
            *self._arguments,
        ]
        if self._arguments[0] == "worker":
            command += ["--without-gossip", "--without-mingle", "-n", f"{id(self)}@%h"]
        else:
            command += ["--pidfile=", "-s", str(self._log.with_name("beat"))]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-l", "INFO"],
                env=environment() | {"SKEP_LOG_LEVEL": "INFO"} | self._environment,
                stdout=log,
                stderr=log,
            )

    def wait_for(self, words: str) -> None:
        what = f"{words!r} in the log of {self._arguments}"
        wait_until(lambda: self._reads(words), what, START_S)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; wait for the end of the process where it ends it."""
        if self._process is None:
            return
        self._process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._process.wait(60)
            self._process = None

    def _reads(self, words: str) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.said
        return words in self.said


def leader(role: str = "scheduler") -> int:
    """Return the process id of the one that leads; 0 while no lease runs."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT owner FROM core_leadership WHERE role = %s AND expires_at > clock_timestamp()",
            [role],
        )
        row = cursor.fetchone()
    return int(row[0].split("/")[1]) if row else 0


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
