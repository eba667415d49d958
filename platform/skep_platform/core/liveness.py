"""The file by whose age a kubelet or Docker sees that a worker or beat goes round.

A probe that asks through the broker fails in each outage of the broker, and has all workers
restarted again and again while none of them is at fault. So a worker touches `SKEP_LIVENESS_FILE`
from its own main loop, connected or not, and the probe looks at how old the file is. Web server and
gateway have /healthz for the same. This module is imported before Django is set up.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from kombu import Connection


def touch() -> None:
    """Say that the main loop of this process goes round."""
    if file := os.environ.get("SKEP_LIVENESS_FILE"):
        with suppress(OSError):  # a full disk ends no worker
            Path(file).touch()


def touch_while_connecting(connection: Connection) -> None:
    """Have `connection.ensure_connection`, which sleeps in the main loop while there is no broker,
    touch the file every second."""
    touch()
    ensure: Any = connection.ensure_connection

    def ensure_connection(*args: Any, callback: Any = None, **kwargs: Any) -> Connection:
        def turn() -> None:
            touch()
            if callback is not None:
                callback()

        return ensure(*args, **{**kwargs, "callback": turn})

    connection.ensure_connection = ensure_connection  # type: ignore[method-assign]
