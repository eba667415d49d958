"""Has a Celery worker connect anew when it cannot consume any more.

A worker takes as many messages as it has threads, and no more until one of them is acknowledged. An
acknowledgement that the connection to the broker loses is not sent again: Celery logs it, and waits
for the loss of the connection to show in what it reads. A worker of one thread reads nothing while
it has its one message, so it waited for ever, and with it the queue "scheduler": each process ran,
and no job was placed. Here a worker that does nothing and may take nothing drops its connection;
Celery then connects again, with nothing taken. The same step shows that the worker goes round (see
`liveness`). This module is imported before Django is set up.
"""

from __future__ import annotations

from typing import Any

import structlog
from celery import Celery, bootsteps
from kombu import Connection

from skep_platform.core import liveness

LOOK_S = 1.0
LOOKS = 2  # in a row: a task that has just ended is acknowledged a moment later

log = structlog.get_logger(__name__)


class ConsumerCheck(bootsteps.StartStopStep):
    """A step of Celery's consumer."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._looks = 0
        self._timer: Any = None
        connect = consumer.ensure_connected

        def ensure_connected(connection: Connection) -> Connection:
            liveness.touch_while_connecting(connection)
            return connect(connection)

        consumer.ensure_connected = ensure_connected

    def start(self, consumer: Any) -> None:
        """Begin to look, after each connection to the broker anew."""
        self._looks = 0
        self._timer = consumer.timer.call_repeatedly(LOOK_S, self.look, (consumer,))

    def stop(self, consumer: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def look(self, consumer: Any) -> None:
        """Raises ConnectionError, for which Celery connects again, when the worker is stuck."""
        from celery.worker import state  # which no other process loads

        liveness.touch()
        works = state.reserved_requests or state.active_requests
        tasks = consumer.task_consumer
        if works or tasks is None or tasks.channel.qos.can_consume():
            self._looks = 0
            return
        self._looks += 1
        if self._looks >= LOOKS:
            self._looks = 0
            log.warning("consumer_stuck", why="an acknowledgement was lost with its connection")
            raise ConnectionError("the broker did not receive an acknowledgement")


def install(app: Celery) -> None:
    """Add the step to the workers of `app`."""
    app.steps["consumer"].add(ConsumerCheck)
