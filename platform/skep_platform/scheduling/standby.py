"""Has one scheduler worker lead, and the others stand by.

Only the worker that leads consumes the queue "scheduler", so that a hint always reaches the process
that can act on it. A standby keeps its state of the cluster caught up, and so its first tick after
a takeover need not read everything. This module is imported before Django is set up.
"""

from __future__ import annotations

import time
from typing import Any

import structlog
from celery import Celery, bootsteps
from celery.signals import worker_shutdown

QUEUE = "scheduler"
LOOK_S = 0.5
CATCH_UP_S = 5.0

log = structlog.get_logger(__name__)


class Standby(bootsteps.StartStopStep):
    """A step of Celery's consumer. It does nothing in a worker of other queues."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self.enabled = QUEUE in consumer.app.amqp.queues.consume_from
        self._consuming = True  # Celery selected the queue
        self._caught_up_at = 0.0
        self._timer: Any = None

    def start(self, consumer: Any) -> None:
        """Begin as a standby; after a lost connection to the broker, go on as before."""
        from skep_platform.scheduling.tick import LEADER

        LEADER.start()
        self._look(consumer)
        self._timer = consumer.timer.call_repeatedly(LOOK_S, self._look, (consumer,))

    def stop(self, consumer: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, consumer: Any) -> None:
        """Follow who leads. Runs between two tasks."""
        from skep_platform.scheduling.tick import LEADER

        leads = LEADER.leads()
        if leads and not self._consuming:
            self._consuming = True
            consumer.add_task_queue(QUEUE)
            # What the former leader had taken from the queue comes back late, or never.
            consumer.app.send_task("skep.scheduling.tick", queue=QUEUE, expires=30, retry=False)
        elif not leads and self._consuming:
            self._consuming = False
            log.info("stands_by", role=QUEUE)
            consumer.cancel_task_queue(QUEUE)
        if not leads and time.monotonic() - self._caught_up_at > CATCH_UP_S:
            self._catch_up()

    def _catch_up(self) -> None:
        from django.db import Error, close_old_connections

        from skep_platform.scheduling.tick import SCHEDULER

        self._caught_up_at = time.monotonic()
        try:
            SCHEDULER.source.catch_up()
        except Error as error:
            log.warning("standby_not_caught_up", error=str(error)[:200])
        finally:
            close_old_connections()


def install(app: Celery) -> None:
    """Add the step to the workers of `app`."""
    app.steps["consumer"].add(Standby)
    worker_shutdown.connect(_resign, weak=False)


def _resign(**_: object) -> None:
    from skep_platform.scheduling.tick import LEADER

    if LEADER.started:
        LEADER.resign()
