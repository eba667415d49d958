"""One flow serves the sync and the async client: what it repeats, how it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from skep_client import calls
from skep_client.client import AsyncSkep, Skep
from skep_client.errors import ServerUnreachable, SkepError

INFO = {"name": "Skep", "version": "1"}
Handler = Callable[[httpx.Request], httpx.Response]


class Server:
    """Answers in turn, the last one for ever, and remembers what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def skep(server: Server, delays: tuple[float, ...] = (0, 0)) -> Skep:
    transport = httpx.MockTransport(server)
    return Skep("https://skep.test/", "secret", retry_delays_s=delays, transport=transport)


def refusal(status: int, code: str = "some_code") -> httpx.Response:
    return httpx.Response(status, json={"code": code, "message": "No.", "details": {"has": 3}})


def test_a_call_carries_the_token_and_is_read_into_its_model():
    server = Server(httpx.Response(200, json={**INFO, "newer_field": 1}))
    assert skep(server).info().version == "1"
    assert server.asked[0].url == "https://skep.test/api/v1/info"
    assert server.asked[0].headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_restarts_or_has_too_much_to_do_is_asked_again(status):
    server = Server(httpx.Response(status), httpx.Response(200, json=INFO))
    assert skep(server).info().name == "Skep"
    assert len(server.asked) == 2


def test_a_server_says_how_long_to_wait_and_is_not_waited_for_too_long():
    server = Server(
        httpx.Response(429, headers={"Retry-After": "0"}), httpx.Response(200, json=INFO)
    )
    assert skep(server).info().name == "Skep"
    later = httpx.Response(
        429, headers={"Retry-After": "3600"}, json={"code": "throttled", "message": "Later."}
    )
    server = Server(later)
    with pytest.raises(SkepError, match="Later"):
        skep(server).info()
    assert len(server.asked) == 1


def test_a_lost_connection_is_tried_again_until_patience_ends():
    server = Server(httpx.ReadError("gone"))
    with pytest.raises(ServerUnreachable):
        skep(server).info()
    assert len(server.asked) == 3


@pytest.mark.parametrize("server", ["skep.test", "https://skep.test:x", "http://[", "a b", ""])
def test_what_is_no_address_is_refused_at_once(server):
    with pytest.raises(ServerUnreachable, match="no address"):
        Skep(server)


@pytest.mark.parametrize("token", ["t\u00f6k", "a\nb"])
def test_what_can_be_no_token_is_refused_at_once(token):
    with pytest.raises(SkepError) as refused:
        Skep("https://skep.test", token)
    assert refused.value.status == 401


def test_a_call_that_may_not_be_repeated_is_sent_once():
    server = Server(httpx.ReadError("gone"))
    with pytest.raises(ServerUnreachable):
        skep(server).run(calls.create_join_token())
    assert len(server.asked) == 1


def test_a_call_that_never_reached_the_server_is_always_repeated():
    token = {"token": "t", "expires_at": "2026-01-01T00:00:00Z"}
    server = Server(httpx.ConnectError("refused"), httpx.Response(201, json=token))
    assert skep(server).run(calls.create_join_token()).token == "t"


LOST = [httpx.ReadError("gone"), httpx.Response(502), httpx.Response(503), httpx.Response(504)]
DELETES = [
    calls.delete_group("lab"),
    calls.remove_storage_file("team", "old"),
    calls.delete_virtual_cluster("vision"),
]


@pytest.mark.parametrize("lost", LOST, ids=["no answer", "502", "503", "504"])
@pytest.mark.parametrize("call", DELETES, ids=lambda call: call.path)
def test_a_deletion_whose_answer_was_lost_is_done_when_nothing_is_there_any_more(call, lost):
    server = Server(lost, refusal(404, "not_found"))
    answer = skep(server).run(call)
    assert answer is None or answer.complete
    assert len(server.asked) == 2


@pytest.mark.parametrize("before", [httpx.ConnectError("refused"), httpx.Response(429)])
def test_a_deletion_that_was_not_done_yet_and_finds_nothing_is_refused(before):
    for answers in ([refusal(404, "not_found")], [before, refusal(404, "not_found")]):
        with pytest.raises(SkepError) as refused:
            skep(Server(*answers)).delete_group("lab")
        assert refused.value.code == "not_found"


def test_what_is_deleted_is_not_taken_for_gone_by_an_answer_that_is_not_of_skep():
    server = Server(httpx.ReadError("gone"), httpx.Response(404, text="<html>"))
    with pytest.raises(ServerUnreachable):
        skep(server).delete_group("lab")


@pytest.mark.parametrize("call", [calls.reset_limit("a", "jobs"), calls.group("lab")])
def test_what_deletes_nothing_is_refused_where_nothing_is_there(call):
    with pytest.raises(SkepError):
        skep(Server(httpx.ReadError("gone"), refusal(404, "not_found"))).run(call)


def test_a_new_name_is_asked_for_once():
    """The answer to a second request would be that there is no such name any more."""
    for call in (calls.update_image("old", name="new"), calls.update_group("old", name="new")):
        server = Server(httpx.ReadError("gone"))
        with pytest.raises(ServerUnreachable):
            skep(server).run(call)
        assert len(server.asked) == 1


def test_every_repetition_of_a_submit_has_the_same_idempotency_key():
    server = Server(httpx.ReadError("gone"), refusal(400))
    with pytest.raises(SkepError):
        skep(server).submit("name: x")
    first, second = (request.headers["Idempotency-Key"] for request in server.asked)
    assert first == second != ""


@pytest.mark.parametrize("method", ["clone", "run_again"])
def test_a_clone_is_repeated_with_the_same_key(method):
    server = Server(httpx.ReadError("gone"), refusal(400))
    with pytest.raises(SkepError):
        getattr(skep(server), method)("0" * 32)
    first, second = (request.headers["Idempotency-Key"] for request in server.asked)
    assert first == second != ""


def test_two_submits_have_two_keys_unless_the_caller_says_otherwise():
    assert (
        calls.submit("a").headers["Idempotency-Key"] != calls.submit("a").headers["Idempotency-Key"]
    )
    assert calls.submit("a", "mine").headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500])
def test_a_refusal_is_reported_with_its_code_and_numbers_and_not_repeated(status):
    server = Server(refusal(status))
    with pytest.raises(SkepError) as caught:
        skep(server).info()
    error = caught.value
    assert (error.status, error.code, error.message) == (status, "some_code", "No.")
    assert error.details == {"has": 3}
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, text="<html>nginx</html>"),
        httpx.Response(200, text="<html>a proxy's login page</html>"),
        httpx.Response(200, json={"something": "else"}),
        httpx.Response(500, json=["not", "an", "object"]),
    ],
    ids=["html error", "html", "other json", "json list"],
)
def test_an_answer_that_is_not_skeps_is_reported_as_such(answer):
    with pytest.raises(ServerUnreachable):
        skep(Server(answer)).info()


def job(name: str) -> dict[str, object]:
    return {
        "id": name,
        "name": name,
        "owner": "eve",
        "virtual_cluster": "default",
        "state": "RUNNING",
        "gpus": 1,
        "tasks": 1,
        "submitted_at": "2026-01-01T00:00:00Z",
    }


def pages() -> Server:
    after = "https://elsewhere.test/api/v1/jobs?cursor=abc%3D"
    return Server(
        httpx.Response(200, json={"results": [job("a"), job("b")], "next": after}),
        httpx.Response(200, json={"results": [job("c")], "next": None}),
    )


def test_all_pages_are_read_from_the_server_we_know():
    server = pages()
    assert [j.name for j in skep(server).jobs(state=["RUNNING", "WAITING"])] == ["a", "b", "c"]
    first, second = (request.url for request in server.asked)
    assert first.params["state"] == second.params["state"] == "RUNNING,WAITING"
    assert (second.host, second.params["cursor"]) == ("skep.test", "abc=")
    assert "cursor" not in first.params


async def test_the_async_client_does_the_same():
    server = pages()
    transport = httpx.MockTransport(server)
    async with AsyncSkep("https://skep.test", "secret", transport=transport) as client:
        assert [j.name async for j in client.jobs()] == ["a", "b", "c"]
    answers = Server(httpx.Response(503), httpx.Response(200, json=INFO))
    transport = httpx.MockTransport(answers)
    async with AsyncSkep("https://s.test", retry_delays_s=(0,), transport=transport) as client:
        assert (await asyncio.wait_for(client.info(), 5)).name == "Skep"


@pytest.mark.parametrize("name", ["a?x=1", "a#b"])
def test_a_name_is_sent_whole(name):
    server = Server(httpx.Response(204))
    skep(server).delete_storage(name)
    assert server.asked[0].url.path == f"/api/v1/storages/{name}"
    assert server.asked[0].url.query == b""


@pytest.mark.parametrize("name", ["a\nb", "caf\udce9", "x" * 100_000])
def test_a_name_that_cannot_be_sent_is_refused(name):
    with pytest.raises(SkepError) as refused:
        skep(Server(httpx.Response(204))).delete_storage(name)
    assert refused.value.code == "not_sendable"
    with pytest.raises(SkepError):
        skep(Server(httpx.Response(204))).jobs(search="caf\udce9").__next__()
