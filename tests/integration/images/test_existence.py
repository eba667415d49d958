"""Whether an image exists, asked of a real registry at the submit."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.docker_registry import OTHER, OTHER_PASSWORD, PASSWORD, USER, Registry
from tests.support.gateway_server import wait_until
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user

from skep_platform.accounts.models import User
from skep_platform.cluster.models import Node
from skep_platform.core.models import Event
from skep_platform.images import credentials, existence
from skep_platform.images.models import Image
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission import registry_check
from skep_platform.jobs.submission.job_file import examine
from skep_platform.tenancy.models import VirtualCluster

pytestmark = pytest.mark.django_db


def submit(user: User, vc: VirtualCluster, uri: str, **auth: str) -> Any:
    return Api(user).post("/jobs", file_with(vc, uri, **auth))


def file_with(vc: VirtualCluster, uri: str, **auth: str) -> dict[str, Any]:
    file = job_file(vc)
    file["prerequisites"][0]["uri"] = uri
    if auth:
        file["prerequisites"][0]["auth"] = auth
    return file


def give_credentials(user: User, registry: Registry, **change: str) -> None:
    login = {"username": USER, "password": PASSWORD} | change
    credentials.store(user, registry.address, **login)


def test_an_image_that_is_there_is_accepted(alice, vc, registry):
    digest = registry.put("team/there")
    give_credentials(alice, registry)
    for part in (":1", f"@{digest}", f":1@{digest}"):
        assert submit(alice, vc, f"{registry.address}/team/there{part}").status_code == 201


def test_an_image_that_is_not_there_is_refused_with_the_field(alice, vc, registry):
    registry.put("team/there")
    give_credentials(alice, registry)
    for name in ("team/there:2", "team/nowhere:1"):
        uri = f"{registry.address}/{name}"
        refused = submit(alice, vc, uri)
        assert refusal(refused) == (400, "image_not_found")
        assert uri in refused.json()["message"]
        [error] = Api(alice).post("/jobs/check", file_with(vc, uri)).json()["errors"]
        assert (error["code"], error["path"]) == ("image_not_found", "prerequisites[0].uri")
    assert not Job.objects.exists()
    registry.put("team/nowhere")
    existence.forget()
    assert submit(alice, vc, f"{registry.address}/team/nowhere:1").status_code == 201


def test_28_each_user_is_asked_for_with_the_own_credentials(alice, vc, registry):
    bob = make_user("bob")
    vc.memberships.create(user=bob)
    uri = f"{registry.address}/team/private:1"
    registry.put("team/private")
    give_credentials(alice, registry)
    assert submit(alice, vc, uri).status_code == 201
    assert refusal(submit(bob, vc, uri)) == (400, "image_denied")
    give_credentials(bob, registry, password="wrong")
    existence.forget()
    assert refusal(submit(bob, vc, uri)) == (400, "image_denied")
    auth = {"username": OTHER, "password": OTHER_PASSWORD, "registryuri": registry.address}
    assert submit(bob, vc, uri, **auth).status_code == 201
    elsewhere = auth | {"registryuri": "registry.example.org"}
    existence.forget()
    assert refusal(submit(bob, vc, uri, **elsewhere)) == (400, "image_denied")


def test_a_name_of_the_catalogue_is_asked_for_by_what_it_stands_for(alice, vc, registry):
    Image.objects.create(name="torch", reference=f"{registry.address}/team/catalogue:1")
    give_credentials(alice, registry)
    refused = submit(alice, vc, "torch")
    assert refusal(refused) == (400, "image_not_found")
    assert refused.json()["details"]["image"] == f"{registry.address}/team/catalogue:1"


def test_a_thousand_submits_of_one_image_ask_once_and_cost_no_statement(alice, vc, registry):
    registry.put("team/burst")
    give_credentials(alice, registry)
    read = examine(json.dumps(file_with(vc, f"{registry.address}/team/burst:1")), alice.pk)
    before = registry.manifests_asked("team/burst")
    assert not any(registry_check.look(alice, vc, read))
    asked, statements = registry.requests(), []
    with connection.execute_wrapper(
        lambda execute, sql, *rest: (statements.append(sql), execute(sql, *rest))[1]
    ):
        for _ in range(1000):
            assert not any(registry_check.look(alice, vc, read))
    assert statements == []
    assert registry.requests() == asked
    assert registry.manifests_asked("team/burst") == before + 1


def test_those_who_ask_at_the_same_time_share_a_question(registry):
    registry.put("team/together")
    login = {"username": USER, "password": PASSWORD}
    one = existence.Wanted(f"{registry.address}/team/together:1", **login)
    one = existence.Wanted(one.uri, one.username, one.password, registry.address)
    asked = {one: (one.uri, existence.Login(**login))}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: existence._ask(asked), range(32)))
    assert {verdict[one].kind for verdict in found} == {"found"}
    assert registry.manifests_asked("team/together") == 1


@pytest.fixture
def silent(settings):
    """The address of a registry that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.SKEP_CHECK_IMAGES = "on"
        settings.SKEP_REGISTRIES = "127.0.0.0/8"
        existence.forget()
        yield f"127.0.0.1:{server.getsockname()[1]}"
    existence.forget()


def test_a_registry_that_does_not_answer_refuses_nothing_and_delays_one_submit_a_minute(
    alice, vc, silent, monkeypatch
):
    monkeypatch.setattr(existence, "ANSWER_S", 0.5)
    made = submit(alice, vc, f"{silent}/team/image:1")
    assert made.status_code == 201
    [event] = Event.objects.filter(subject_id=made.json()["id"], kind="job.queued")
    assert f"Could not check whether the image {silent}/team/image:1 exists" in event.message
    wait_until(lambda: existence._silence(f"{silent}/team/image:1"), "its question ended")
    asked = []
    monkeypatch.setattr(existence, "_answer", lambda *args: asked.append(args))
    for tag in range(5):
        assert submit(alice, vc, f"{silent}/team/image:{tag + 2}").status_code == 201
    assert asked == []
    read = examine(json.dumps(file_with(vc, f"{silent}/team/image:9")), alice.pk)
    with CaptureQueriesContext(connection) as queries:
        assert registry_check.look(alice, vc, read).notes
    assert len(queries) == 0  # no credentials are read for a registry that is left alone
    checked = Api(alice).post("/jobs/check", file_with(vc, f"{silent}/team/image:1")).json()
    assert checked["valid"]
    assert checked["notes"][0]["code"] == "image_not_checked"


@pytest.mark.django_db(transaction=True)
def test_who_waits_for_a_registry_holds_no_connection_of_the_database(
    alice, vc, silent, monkeypatch
):
    held, wait = [], existence.wait

    def noted(*args: Any, **kwargs: Any) -> Any:
        held.append(connection.connection is not None)
        return wait(*args, **kwargs)

    monkeypatch.setattr(existence, "ANSWER_S", 0.1)
    monkeypatch.setattr(existence, "wait", noted)
    assert submit(alice, vc, f"{silent}/team/image:1").status_code == 201
    assert held == [False]


def test_warn_notes_what_is_not_there_and_off_asks_nothing(alice, vc, registry, settings):
    give_credentials(alice, registry)
    settings.SKEP_CHECK_IMAGES = "warn"
    made = submit(alice, vc, f"{registry.address}/team/none:1")
    assert made.status_code == 201
    [event] = Event.objects.filter(subject_id=made.json()["id"], kind="job.queued")
    assert "is not in its registry" in event.message
    settings.SKEP_CHECK_IMAGES = "off"
    asked = registry.requests()
    assert submit(alice, vc, f"{registry.address}/team/none:2").status_code == 201
    assert registry.requests() == asked


def test_simulated_nodes_pull_nothing_so_no_image_is_missing(alice, vc, registry):
    give_credentials(alice, registry)
    make_node("gpu-1", gpus=8)
    Node.objects.update(runtime="mock")
    assert submit(alice, vc, f"{registry.address}/team/none:1").status_code == 201


def test_16_the_server_talks_to_no_address_that_is_not_allowed(alice, vc, settings):
    """A service that counts who talks to it stands where the image is said to be, by address and
    as the place of tokens."""
    settings.SKEP_CHECK_IMAGES = "on"
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.2", 0)) as inner:
        threading.Thread(target=_count, args=(inner, heard), daemon=True).start()
        private = f"127.0.0.2:{inner.getsockname()[1]}"
        challenger = _challenger(f"http://{private}/token")
        for allowed, registry in (("public", private), ("127.0.0.1/32", challenger)):
            settings.SKEP_REGISTRIES = allowed
            existence.forget()
            made = submit_checked(alice, vc, f"{registry}/team/image:1")
            assert made.kind == "unknown"
    assert heard == []
    existence.forget()


def submit_checked(user: User, vc: VirtualCluster, uri: str) -> existence.ImageAnswer:
    """Ask as a submit does that was not refused for its registry before."""
    return existence.look(user.pk, vc.pk, [existence.Wanted(uri)], dict)[uri]


def _count(server: socket.socket, heard: list[bytes]) -> None:
    while True:
        try:
            heard.append(server.accept()[0].recv(100))
        except OSError:
            return


def _challenger(realm: str) -> str:
    """Return the address of a registry that sends its clients elsewhere for a token."""
    server = socket.create_server(("127.0.0.1", 0))
    answer = (
        f'HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer realm="{realm}"\r\nContent-Length: 0\r\n\r\n'
    )

    def serve() -> None:
        with server, server.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(answer.encode())

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_16_a_registry_whose_place_of_tokens_is_no_address_denies_the_image(alice, vc, silent):
    uri = f"{_challenger('https://[x')}/team/image:1"
    assert refusal(submit(alice, vc, uri)) == (400, "image_denied")


@contextmanager
def answering() -> Iterator[str]:
    """Yield the address of a registry that answers with the status that an image has as its tag."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(int(self.path.rpartition("/")[2]))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "login", "left_alone"),
    [
        ("400", "", False),
        ("405", "", False),
        ("500", "", False),
        ("429", "bob", False),
        ("429", "", True),
        ("503", "bob", True),
    ],
)
@pytest.mark.usefixtures("silent")
def test_what_a_registry_answers_about_one_image_keeps_it_from_no_other_user(
    status, login, left_alone
):
    with answering() as registry:
        uri = f"{registry}/team/image"
        key, until = (uri, login), time.monotonic() + existence.ANSWER_S
        answer = existence._answer(key, f"{uri}:{status}", existence.Login(login, "pw"), until)
        assert answer.kind == "unknown"
        assert bool(existence._silence(f"{uri}:1")) == left_alone


def test_a_registry_that_was_asked_with_hardly_any_time_left_is_not_left_alone(silent):
    until = time.monotonic() + existence.ANSWER_S / 10
    answer = existence._answer(("", ""), f"{silent}/team/image:1", existence.Login(), until)
    assert answer.kind == "unknown"
    assert existence._silence(f"{silent}/team/other:1") is None


def test_a_question_that_waited_too_long_leaves_its_registry_alone_for_no_time(silent):
    answer = existence._answer(("", ""), f"{silent}/team/image:1", existence.Login(), 0.0)
    assert answer.kind == "unknown"
    assert existence._silence(f"{silent}/team/other:1") is None


def test_27_no_credentials_are_in_what_is_remembered_or_said(alice, vc, registry):
    give_credentials(alice, registry)
    refused = submit(alice, vc, f"{registry.address}/team/none:1")
    assert PASSWORD not in refused.content.decode()
    assert PASSWORD not in repr((existence._recent._held, existence._answers._held))
