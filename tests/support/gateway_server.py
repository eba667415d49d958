"""The real ASGI application under a real uvicorn: in a thread of the test, or as a process that
can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from django.conf import settings
from django.db import connection
from tests.support.ports import free_port

OPTIONS = {
    "http": "skep_platform.core.serving:Impatient",
    "log_level": "warning",
    "ws_per_message_deflate": False,
    "ws_ping_interval": 1,  # sooner than the 20 s of a server: a reader that stops meets it here
    "ws_ping_timeout": 86400,
    "lifespan": "off",
}
START_S = 60


class ThreadServer:
    """Shares the test's Django; `stop` ends it gracefully."""

    def __init__(self, application: Any = None) -> None:
        from tests.support import gateway_app

        application = application or gateway_app.application
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.server = uvicorn.Server(uvicorn.Config(application, **OPTIONS))
        self._thread = threading.Thread(target=self.server.run, args=([self._socket],))

    def __enter__(self) -> ThreadServer:
        self._thread.start()
        wait_until(lambda: self.server.started, "uvicorn started")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self._thread.join(START_S)


class ProcessServer:
    """A web server in a process of its own, on the test's database and notifications."""

    def __init__(
        self, *, part: str = "application", lifespan: str = "off", **environment: str
    ) -> None:
        """With `lifespan` "on" it announces itself, and says goodbye to its agents. `part`: "web"
        or "gateway" for one of the two, which then ends its requests when it is stopped."""
        self._part = part
        self.port = free_port()
        self._lifespan = lifespan
        self._environment = environment  # on top of the test's own
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ProcessServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        address = ["--host", "127.0.0.1", "--port", str(self.port)]
        quiet = ["--log-level", "warning", "--ws-per-message-deflate=false"]
        quiet += ["--ws-ping-timeout", str(OPTIONS["ws_ping_timeout"])]
        quiet += ["--lifespan", self._lifespan]
        if self._part == "application":
            quiet.append("--timeout-graceful-shutdown=1")
        command = [sys.executable, "-m", "uvicorn", f"tests.support.gateway_app:{self._part}"]
        self._process = subprocess.Popen(
            [*command, *address, *quiet], env=environment() | self._environment
        )
        wait_until(self._answers, "the web server answers", 240.0)

    def kill(self) -> None:
        """SIGKILL: no time to say or store anything."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def terminate(self) -> None:
        """SIGTERM, and its end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(START_S)
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the web server died"
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def wait_until(holds: Callable[[], object], what: str, seconds: float = START_S) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def environment() -> dict[str, str]:
    """Return the variables of a process on the database and the broker of this test."""
    url = urlsplit(os.environ["SKEP_DATABASE_URL"])
    database = url._replace(path="/" + connection.settings_dict["NAME"]).geturl()
    prefix = settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"]
    timing = {
        name: str(getattr(settings, name))
        for name in ("SKEP_LEASE_S", "SKEP_LEASE_MARGIN_S", "SKEP_HEARTBEAT_S", "SKEP_SAMPLE_S")
    }
    ours = {"SKEP_DATABASE_URL": database, "SKEP_TEST_PREFIX": prefix} | timing
    ours["SKEP_DATA_DIR"] = str(settings.SKEP_DATA_DIR)
    return {**os.environ, **ours, "PYTHONPATH": os.getcwd()}
