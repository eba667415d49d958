"""Uploading working files, and what of it a node may have."""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.files.storage import FileSystemStorage, storages
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.archives import packed
from tests.support.gateway_live import login
from tests.support.gateway_rows import running_attempt
from tests.support.gateway_server import ThreadServer, wait_until
from tests.support.platform_factories import join_node, make_user, release

from skep_limits import MAX_ARCHIVE_BYTES
from skep_platform.accounts import services as accounts
from skep_platform.core.bulk import fetch
from skep_platform.files import queries, services
from skep_platform.files.models import Archive
from skep_platform.jobs.models import Job, JobFiles
from skep_platform.jobs.states import JobState

GZIP = "application/gzip"
ARCHIVE = packed(("hello", b"world"), ("train.py", b"print()"))
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()


@pytest.fixture(scope="module")
def web() -> Iterator[ThreadServer]:
    with ThreadServer() as server:
        yield server


@pytest.fixture
def port(web: ThreadServer, transactional_db: None) -> Iterator[int]:
    yield web.port
    wait_until(lambda: not web.server.server_state.tasks, "every request ended")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(storages.backends["files"]["OPTIONS"], "location", str(tmp_path))
    monkeypatch.setattr(storages, "_storages", {})


class Caller:
    def __init__(self, port: int, user: Any = None, *, token: str = "") -> None:
        self.port = port
        token = token or (accounts.create_token(user)[1] if user else "")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def post(self, body: Any, kind: str = GZIP, **headers: str) -> tuple[int, Any]:
        sent = {"Content-Type": kind, **self.headers, **headers}
        return self._send("POST", "/api/v1/files", body, sent)

    def get(self, path: str) -> tuple[int, Any]:
        return self._send("GET", f"/api/v1/{path}", None, self.headers)

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get("Content-Type", "")
        return answer.status, json.loads(data) if "json" in kind else data


def stored() -> list[str]:
    root = Path(storages["files"].path(""))
    return sorted(path.name for path in root.rglob("*") if path.is_file())


class TestUpload:
    def test_an_archive_is_named_by_its_hash(self, port):
        caller = Caller(port, make_user())
        shape = {"sha256": SHA256, "size": len(ARCHIVE), "unpacked_size": 10240, "files": 2}
        assert caller.post(ARCHIVE) == (201, shape)
        assert caller.get(f"files/{SHA256}") == (200, shape)
        assert caller.post(ARCHIVE, "application/x-gzip") == (201, shape)  # again changes nothing
        assert stored() == [SHA256]
        assert Archive.objects.count() == 1

    def test_it_comes_in_pieces_without_a_length(self, port):
        parts = iter([ARCHIVE[:100], ARCHIVE[100:]])
        assert Caller(port, make_user()).post(parts)[0] == 201

    def test_what_others_uploaded_does_not_exist_for_me(self, port):
        alice, bob, admin = make_user(), make_user(), make_user(admin=True)
        Caller(port, alice).post(ARCHIVE)
        for user in (bob, admin):
            status, answer = Caller(port, user).get(f"files/{SHA256}")
            assert (status, answer["code"]) == (404, "not_found")
        assert Caller(port, bob).post(ARCHIVE)[0] == 201
        assert Caller(port, bob).get(f"files/{SHA256}")[0] == 200
        assert stored() == [SHA256]  # the bytes once for both

    @pytest.mark.parametrize(
        ("body", "kind", "answer"),
        [
            (b"", GZIP, (400, "archive_refused")),
            (b"no archive", GZIP, (400, "archive_refused")),
            (packed(("../evil", b"x")), GZIP, (400, "archive_refused")),
            (ARCHIVE, "application/json", (415, "unsupported_media_type")),
            (ARCHIVE, "multipart/form-data; boundary=x", (415, "unsupported_media_type")),
        ],
    )
    def test_what_is_refused_leaves_nothing(self, port, body, kind, answer):
        status, body = Caller(port, make_user()).post(body, kind)
        assert (status, body["code"]) == answer
        assert stored() == []
        assert not Archive.objects.exists()

    def test_a_session_needs_the_token_against_forged_requests(self, port):
        session = login(make_user())
        caller = Caller(port)
        caller.headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session.session_key}"}
        status, answer = caller.post(ARCHIVE)
        assert (status, answer["code"]) == (403, "forbidden")
        assert not Archive.objects.exists()

    def test_a_session_with_the_token_uploads(self, port):
        session, token = login(make_user()), "t" * 32
        cookies = {settings.SESSION_COOKIE_NAME: session.session_key, "skep_csrf": token}
        caller = Caller(port)
        caller.headers = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
            "X-CSRFToken": token,
        }
        assert caller.post(ARCHIVE)[0] == 201

    def test_a_user_keeps_only_so_much(self, port, monkeypatch):
        monkeypatch.setattr(services, "MAX_PER_OWNER", len(ARCHIVE) + 10)
        caller = Caller(port, make_user())
        assert caller.post(ARCHIVE)[0] == 201
        assert caller.post(ARCHIVE)[0] == 201
        status, answer = caller.post(packed(("other", b"x")))
        assert (status, answer["code"]) == (400, "files_quota")
        assert stored() == [SHA256]


class TestBeforeTheBody:
    @pytest.mark.parametrize("token", ["", "skt_" + "a" * 64])
    def test_31_no_body_is_read_before_the_login_is_checked(self, port, token):
        answer = announced(Caller(port, token=token), "files", 200_000_000)
        assert answer.startswith(b"HTTP/1.1 401")
        assert b"not_authenticated" in answer

    def test_31_an_archive_is_not_larger_than_announced(self, port):
        caller = Caller(port, make_user())
        assert announced(caller, "files", MAX_ARCHIVE_BYTES + 1).startswith(b"HTTP/1.1 413")

    @pytest.mark.parametrize("path", ["jobs", "files/", "files/x", "FILES"])
    def test_31_other_routes_take_no_such_body(self, port, path):
        caller = Caller(port, make_user())
        assert announced(caller, path, 3 * 1024**2).startswith(b"HTTP/1.1 413")


def announced(caller: Caller, path: str, size: int) -> bytes:
    """Return the beginning of the answer to a body of which only the size was announced."""
    with socket.create_connection(("127.0.0.1", caller.port), timeout=60) as connection:
        head = f"POST /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {GZIP}\r\n"
        head += f"Content-Length: {size}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
        connection.sendall(head.encode() + b"\r\n")
        return connection.recv(100_000)


class TestAgents:
    def test_a_node_has_what_its_attempts_use_and_nothing_else(self, port):
        node, credential = join_node()
        attempt = running_attempt(node, gpus=0)
        archive = services.upload(attempt.job.owner, _file(ARCHIVE))
        agent = Caller(port, token=credential)
        assert agent.get(f"agent/files/{SHA256}")[0] == 404  # no job of it names it
        JobFiles.objects.create(job=attempt.job, archive=archive)
        assert agent.get(f"agent/files/{SHA256}") == (200, ARCHIVE)
        assert agent.get(f"agent/files/{'0' * 64}")[0] == 404
        _, other = join_node()
        assert Caller(port, token=other).get(f"agent/files/{SHA256}")[0] == 404
        release(attempt)
        assert agent.get(f"agent/files/{SHA256}")[0] == 404

    def test_who_waits_for_the_store_holds_no_connection_of_the_database(self, port, monkeypatch):
        held, open_file = [], FileSystemStorage.open

        def noted(*args: Any) -> Any:
            held.append(connection.connection is not None)
            return open_file(*args)

        node, credential = join_node()
        attempt = running_attempt(node, gpus=0)
        archive = services.upload(attempt.job.owner, _file(ARCHIVE))
        JobFiles.objects.create(job=attempt.job, archive=archive)
        monkeypatch.setattr(FileSystemStorage, "open", noted)
        assert Caller(port, token=credential).get(f"agent/files/{SHA256}") == (200, ARCHIVE)
        assert held == [False]

    def test_finding_j4_a_node_keeps_the_scratch_of_its_jobs_until_some_time_after_their_end(
        self, port, settings
    ):
        settings.SKEP_SCRATCH_RETENTION_S = 60
        node, credential = join_node()
        mine, elsewhere = running_attempt(node, gpus=0).job, running_attempt(gpus=0).job
        agent = Caller(port, token=credential)
        asked = f"agent/scratch?job={mine.pk}&job={elsewhere.pk}&job={uuid4()}"
        assert agent.get(asked) == (200, {"keep": [str(mine.pk)]})

        def ended(seconds_ago: int) -> None:
            at = timezone.now() - timedelta(seconds=seconds_ago)
            Job.objects.filter(pk=mine.pk).update(state="SUCCEEDED", finished_at=at)

        ended(30)
        assert agent.get(asked) == (200, {"keep": [str(mine.pk)]})
        ended(90)
        assert agent.get(asked) == (200, {"keep": []})
        assert agent.get("agent/scratch?job=x")[0] == 400
        assert agent.get("agent/scratch?" + "job=x&" * 201)[0] == 400

    def test_people_and_strangers_have_nothing(self, port):
        for caller in (Caller(port), Caller(port, make_user(admin=True)), Caller(port, token="x")):
            status, answer = caller.get(f"agent/files/{SHA256}")
            assert (status, answer["code"]) == (401, "not_authenticated")

    def test_bytes_that_are_gone_are_reported(self, port):
        node, credential = join_node()
        attempt = running_attempt(node, gpus=0)
        archive = services.upload(attempt.job.owner, _file(ARCHIVE))
        JobFiles.objects.create(job=attempt.job, archive=archive)
        services.delete_stored(SHA256)
        assert Caller(port, token=credential).get(f"agent/files/{SHA256}")[0] == 404


def _file(data: bytes) -> Any:
    return io.BytesIO(data)


@pytest.mark.django_db
class TestTidy:
    def old(self, archive: Archive) -> None:
        Archive.objects.filter(pk=archive.pk).update(used_at=timezone.now() - timedelta(days=31))
        os.utime(storages["files"].path(queries.path_of(archive.sha256)), (0, 0))

    def test_archives_unused_for_long_are_deleted(self):
        kept = services.upload(make_user(), _file(packed(("kept", b"1"))))
        gone = services.upload(make_user(), _file(packed(("gone", b"1"))))
        self.old(gone)
        services.tidy()
        assert list(Archive.objects.all()) == [kept]
        assert stored() == [kept.sha256]

    def test_many_archives_cost_few_queries(self, monkeypatch):
        monkeypatch.setattr(services, "AT_ONCE", 2)
        kept = [services.upload(make_user(), _file(packed(("k", b"%d" % n)))) for n in range(8)]
        for archive in kept:
            os.utime(storages["files"].path(queries.path_of(archive.sha256)), (0, 0))
        for number in range(3):
            self.old(services.upload(make_user(), _file(packed(("gone", b"%d" % number)))))
        with CaptureQueriesContext(connection) as made:
            services.tidy()
        assert stored() == sorted(archive.sha256 for archive in kept)
        looks = [one["sql"] for one in made if '"sha256" IN' in one["sql"]]
        assert len(looks) == 6, "eleven archives and no more, two at a time"

    def test_bytes_stay_while_anybody_may_use_them(self):
        mine = services.upload(make_user(), _file(ARCHIVE))
        other = services.upload(make_user(), _file(ARCHIVE))
        self.old(mine)
        services.tidy()
        assert list(Archive.objects.all()) == [other]
        assert stored() == [SHA256]

    def test_an_unfinished_job_keeps_its_archive_and_a_finished_one_does_not(self):
        attempt = running_attempt(gpus=0)
        archive = services.upload(attempt.job.owner, _file(ARCHIVE))
        JobFiles.objects.create(job=attempt.job, archive=archive)
        self.old(archive)
        services.tidy()
        assert stored() == [SHA256]
        job = attempt.job
        job.state, job.finished_at = JobState.SUCCEEDED, timezone.now()
        job.save()
        services.tidy()
        assert stored() == []
        assert not JobFiles.objects.exists()

    def test_an_upload_that_just_comes_is_not_taken_for_a_leftover(self):
        services.store("a" * 64, _file(b"x"))
        services.tidy()
        assert stored() == ["a" * 64]
        os.utime(storages["files"].path(queries.path_of("a" * 64)), (0, 0))
        services.tidy()
        assert stored() == []


@pytest.mark.django_db(transaction=True)
def test_bytes_of_which_an_archive_is_being_made_stay():
    """They are a leftover until the archive is there for all to see."""
    services.store(SHA256, _file(ARCHIVE))
    os.utime(storages["files"].path(queries.path_of(SHA256)), (0, 0))
    with ThreadPoolExecutor(1) as other:
        with transaction.atomic():
            services._lock_bytes(SHA256)
            Archive.objects.create(
                owner=make_user(), sha256=SHA256, size=1, unpacked_size=1, files=1
            )
            tidying = other.submit(_tidy)
            wait_until(lambda: fetch(WAITING)[0][0], "the lock")
        tidying.result(30)
    assert stored() == [SHA256]


WAITING = """
SELECT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))
"""


def _tidy() -> None:
    services.tidy()
    connection.close()
