"""Log lines: JSON, with the request's id, and without secrets."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest
import structlog
from celery import Celery
from celery.app.log import Logging
from celery.app.trace import build_tracer
from celery.signals import before_task_publish
from tests.support.platform_api import Api
from tests.support.platform_factories import PASSWORD, join_node, make_user

from skep_platform.core.logs import configure

log = structlog.get_logger("test")


@pytest.fixture
def lines(capsys):
    """What this thread logs: one that an earlier test left may write, too."""
    configure("INFO")
    here, (handler,) = threading.get_ident(), logging.getLogger().handlers
    emit, write = handler.emit, handler.write
    handler.emit = lambda record: emit(record) if record.thread == here else None
    handler.write = lambda line: write(line) if threading.get_ident() == here else None

    def read() -> list[dict]:
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    return read


def test_every_line_is_one_json_object(lines):
    log.info("hello", number=1)
    logging.getLogger("some.library").warning("it %s", "failed")
    first, second = lines()
    assert (first["event"], first["number"], first["level"]) == ("hello", 1, "info")
    assert (second["event"], second["logger"]) == ("it failed", "some.library")
    assert first["timestamp"].endswith("Z")


def test_exception_is_text_in_the_line_without_local_values(lines):
    def fail() -> None:
        hidden = "hunter2"  # noqa: F841
        raise RuntimeError("boom")

    try:
        fail()
    except RuntimeError:
        log.exception("failed")
    (line,) = lines()
    assert "boom" in line["exception"]
    assert "hunter2" not in line["exception"].replace('hidden = "hunter2"', "")


@pytest.mark.parametrize(
    "fields",
    [
        {"password": "hunter2"},
        {"Authorization": "Bearer hunter2"},
        {"join_token": "hunter2"},
        {"nested": {"api_key": "hunter2"}},
        {"items": [{"secret": "hunter2"}]},
        {"url": "redis://:hunter2@127.0.0.1:6379"},
        {"url": "postgresql://skep:hunter2@db/skep"},
        {"text": "sent skj_hunter2hunter2 to it"},
        {"text": "Authorization: Bearer hunter2"},
    ],
)
def test_27_secrets_are_masked(lines, fields):
    log.info("event", **fields)
    (line,) = lines()
    assert "hunter2" not in json.dumps(line)
    assert "***" in json.dumps(line)


def test_27_secrets_in_a_librarys_traceback_are_masked(lines):
    try:
        raise ConnectionError("cannot reach redis://:hunter2@127.0.0.1:1")
    except ConnectionError:
        logging.getLogger("library").exception("failed")
    (line,) = lines()
    assert "hunter2" not in json.dumps(line)


@pytest.mark.django_db
def test_27_requests_are_logged_without_query_body_or_credentials(lines):
    user = make_user("ann")
    api = Api(user)
    api.client.get("/api/v1/nodes?token=hunter2", HTTP_X_REQUEST_ID="abc")
    answer = Api().post("/auth/token", {"username": "ann", "password": PASSWORD}).json()
    _, credential = join_node("alpha")
    written = lines()
    first = next(line for line in written if line["event"] == "request")
    assert (first["path"], first["status"], first["user"]) == ("/api/v1/nodes", 200, "ann")
    assert first["request_id"] == "abc"
    text = json.dumps(written)
    for secret in ("hunter2", api.token, answer["token"], PASSWORD, credential):
        assert secret not in text


@pytest.mark.parametrize(
    ("option", "ours", "written"),
    [
        ("WARNING", "INFO", ["test", "celery.app.trace: failed"]),
        ("INFO", "INFO", ["test", "celery.app.trace: succeeded", "celery.app.trace: failed"]),
        ("INFO", "WARNING", ["celery.app.trace: failed"]),
    ],
)
def test_the_option_of_a_worker_holds_back_what_celery_says(
    lines, monkeypatch, option, ours, written
):
    monkeypatch.setenv("SKEP_LOG_LEVEL", ours)
    monkeypatch.setattr(Logging, "_setup", False)  # done once in a process
    app = Celery("test", set_as_current=False)
    try:
        app.log.setup_logging_subsystem(loglevel=option)  # as `celery worker -l` does
        log.info("of ours")
        logging.getLogger("celery.app.trace").info("succeeded")
        logging.getLogger("celery.app.trace").error("failed")
    finally:
        logging.getLogger("celery").setLevel(logging.NOTSET)
    found = [(line["logger"], line["event"]) for line in lines()]
    assert [n if n == "test" else f"{n}: {event}" for n, event in found] == written


def test_lines_of_a_task_name_it_and_the_request_that_sent_it(lines):
    app = Celery("test", set_as_current=False)

    @app.task(name="skep.test.task", bind=True)
    def task(self) -> None:
        log.info("from the task")

    structlog.contextvars.bind_contextvars(request_id="abc")
    headers: dict[str, Any] = {}
    before_task_publish.send(sender=task.name, headers=headers)
    structlog.contextvars.clear_contextvars()
    # As a worker runs it: its request is made of the headers of the message.
    request = {**headers, "id": "task-1", "task": task.name, "is_eager": True}
    build_tracer(task.name, task, app=app)("task-1", (), {}, request)
    log.info("after it")
    line, after = (one for one in lines() if one["logger"] == "test")
    assert (line["task"], line["task_id"]) == ("skep.test.task", "task-1")
    assert line["request_id"] == "abc"
    assert "task" not in after
