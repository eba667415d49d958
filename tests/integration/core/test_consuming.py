"""A worker that lost an acknowledgement connects anew instead of waiting for ever."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery.worker import state
from django.conf import settings
from kombu import Connection, Queue

from skep_platform.celery import app
from skep_platform.core.consuming import LOOKS, ConsumerCheck


@pytest.fixture
def consumer() -> Iterator[Any]:
    """One that takes a message at a time, as the scheduler's worker does, and has taken one. Its
    broker is the real one."""
    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    with Connection(settings.CELERY_BROKER_URL, transport_options=options) as connection:
        queue = Queue(f"test-{uuid4().hex}", channel=connection.default_channel)
        producer = connection.Producer()
        for number in range(2):
            producer.publish(number, routing_key=queue.name, declare=[queue])
        taken: list[Any] = []
        tasks = connection.Consumer(queue, prefetch_count=1, on_message=taken.append)
        with tasks:
            connection.drain_events(timeout=60)
            yield SimpleNamespace(
                task_consumer=tasks, taken=taken, connection=connection, ensure_connected=None
            )
        queue.bind(connection.default_channel).delete()


def check(consumer: Any) -> ConsumerCheck:
    return ConsumerCheck(consumer)


def test_a_worker_that_does_nothing_and_may_take_nothing_connects_again(consumer):
    found = check(consumer)
    for _ in range(LOOKS - 1):
        found.look(consumer)
    with pytest.raises(ConnectionError):
        found.look(consumer)


def test_a_worker_at_work_is_left_alone(consumer, monkeypatch):
    monkeypatch.setattr(state, "reserved_requests", {"a task"})
    found = check(consumer)
    for _ in range(3 * LOOKS):
        found.look(consumer)


def test_a_worker_whose_acknowledgement_arrived_is_left_alone(consumer):
    found = check(consumer)
    found.look(consumer)
    consumer.taken[0].ack()
    for _ in range(3 * LOOKS):
        found.look(consumer)
    consumer.connection.drain_events(timeout=60)  # it takes the next one
    assert [message.payload for message in consumer.taken] == [0, 1]


def test_workers_have_the_step_and_celery_connects_again_for_its_error():
    assert ConsumerCheck in app.steps["consumer"]
    with app.connection_for_read() as connection:
        assert issubclass(ConnectionError, connection.connection_errors)
