"""What follows a job outlasts a restart and an outage of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import httpx
import pytest
from tests.unit.client.test_cli_jobs import ID, JOB, NOW
from tests.unit.client.test_flow import Server, refusal, skep
from websockets.sync.server import ServerConnection, serve

from skep_client import calls, live
from skep_client.cli.logs import Printer, _follow
from skep_client.client import AsyncSkep, Skep
from skep_client.errors import ServerUnreachable, SkepError
from skep_client.flow import OUTAGE_DELAY_S, Send, Sleep, repeated
from skep_client.live import Subscription

RUNNING = {**JOB, "state": "RUNNING"}
AWAY = httpx.ConnectError("refused")
BUSY = httpx.Response(503, headers={"Retry-After": "60"})


class Notifier:
    """A server of /ws/live that notifies at once; `lost` closes what is open."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.refuses = False
        self._open: list[ServerConnection] = []

    def __call__(self, connection: ServerConnection) -> None:
        self._open.append(connection)
        self.asked.append(json.loads(connection.recv()))
        connection.send("{}")
        for _ in connection:
            pass

    def refuse(self, connection: ServerConnection, _: Any) -> Any:
        return connection.respond(503, "") if self.refuses else None

    def lost(self) -> None:
        for connection in self._open:
            connection.close()


@contextmanager
def notifying() -> Iterator[tuple[Notifier, str]]:
    notifier = Notifier()
    with serve(notifier, "127.0.0.1", 0, process_request=notifier.refuse) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield notifier, f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.filterwarnings("error")
def test_a_subscription_uses_nothing_that_websockets_will_take_away():
    with notifying() as (_, address), Subscription(address, "t", "job", ID) as changes:
        changes.wait(5)
        assert changes._socket is not None


def test_a_lost_subscription_is_opened_again(monkeypatch):
    monkeypatch.setattr(live, "POLL_S", 0)
    monkeypatch.setattr(live, "REOPEN_S", 0)
    with notifying() as (notifier, address), Subscription(address, "t", "job", ID) as changes:
        changes.wait(5)
        notifier.refuses = True
        notifier.lost()
        for _ in range(3):  # the loss, and two looks without one
            changes.wait(5)
        assert len(notifier.asked) == 1
        notifier.refuses = False
        for _ in range(2):  # it is opened, and receives the first notification
            changes.wait(5)
        assert changes._socket is not None
    assert notifier.asked == [{"subscribe": "job", "id": ID}] * 2


def test_a_subscription_is_not_opened_again_at_each_look(monkeypatch):
    monkeypatch.setattr(live, "POLL_S", 0)
    monkeypatch.setattr(live, "REOPEN_S", 1000)
    with notifying() as (notifier, address), Subscription(address, "t", "job", ID) as changes:
        changes.wait(5)
        notifier.lost()
        for _ in range(10):
            changes.wait(5)
    assert len(notifier.asked) == 1


def test_the_pause_before_it_is_opened_again_grows_while_that_fails(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(live.time, "monotonic", clock)
    changes = Subscription("http://127.0.0.1:1", "t", "job", ID)
    found = []
    for _ in range(7):
        changes._open(1)
        found.append(changes._reopen_at - clock.now)
        clock.now = changes._reopen_at
    assert all(1 <= pause / least <= 1.5 for pause, least in zip(
        found, (15, 30, 60, 120, 240, 240, 240), strict=True))  # fmt: skip


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def pauses(call: calls.Call[Any], outcome: Any, most: int = 1000) -> list[float]:
    """Return the pauses between tries of a call with an outcome that stays; then it gives up."""
    clock, found = Clock(), list[float]()
    flow = repeated(call, httpx.Request("GET", "https://s.test"), (1.0, 2.0), clock)
    step = next(flow)
    while len(found) < most:
        try:
            step = flow.send(outcome if isinstance(step, Send) else None)
        except (ServerUnreachable, StopIteration):
            return found
        if isinstance(step, Sleep):
            found.append(step.seconds)
            clock.now += step.seconds
    raise AssertionError("it goes on for ever")


@pytest.mark.parametrize("outcome", [AWAY, httpx.Response(502)], ids=["away", "502"])
def test_a_call_that_follows_goes_on_for_minutes_and_then_gives_up(outcome):
    assert pauses(calls.job(ID), outcome) == [1.0, 2.0]
    found = pauses(calls.following(calls.job(ID)), outcome)
    assert found[:4] == [1.0, 2.0, OUTAGE_DELAY_S, OUTAGE_DELAY_S]
    assert calls.OUTAGE_S - OUTAGE_DELAY_S <= sum(found) <= calls.OUTAGE_S
    assert sum(pauses(calls.following(calls.job(ID), 20), outcome)) <= 20


def test_a_call_that_follows_waits_for_as_long_as_the_server_asks():
    assert pauses(calls.job(ID), BUSY) == []
    assert pauses(calls.following(calls.job(ID)), BUSY) == [60.0] * 15


@pytest.mark.parametrize("error", [httpx.UnsupportedProtocol(""), httpx.LocalProtocolError("")])
def test_what_can_never_be_sent_is_not_waited_for(error):
    assert pauses(calls.following(calls.job(ID)), error) == []


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skep_client.flow.OUTAGE_DELAY_S", 0)


def test_a_wait_outlasts_an_outage_and_says_so_once(no_pause, caplog):
    answers = [AWAY, httpx.Response(502), AWAY, httpx.Response(200, json=JOB)]
    with skep(Server(*answers), ()) as client:
        assert client.wait(ID).state == "FAILED"
    said = [record.getMessage() for record in caplog.records if record.name == "skep_client"]
    assert said == [
        "https://skep.test/ does not answer; trying again for up to 15 min.",
        "https://skep.test/ answers again.",
    ]


async def test_the_async_wait_outlasts_an_outage(no_pause):
    transport = httpx.MockTransport(Server(AWAY, AWAY, httpx.Response(200, json=JOB)))
    async with AsyncSkep("https://s.test", retry_delays_s=(), transport=transport) as client:
        assert (await client.wait(ID)).state == "FAILED"


def test_a_wait_with_a_limit_gives_up_then():
    server = Server(AWAY)
    with skep(server, ()) as client, pytest.raises(TimeoutError, match="after 1 s"):
        client.wait(ID, timeout_s=1)
    assert len(server.asked) == 1


def page(*texts: str, complete: bool = False) -> httpx.Response:
    chunks = [
        {"attempt_id": "a", "role": "worker", "index": 0, "rank": 0, "stream": "stdout",
         "at": NOW, "text": text}
        for text in texts
    ]  # fmt: skip
    rows = {"chunks": chunks, "next": 1, "more": False, "complete": complete}
    return httpx.Response(200, json=rows)


def followed(client: Skep) -> None:
    _follow(client, ID, Printer())


def test_a_log_is_followed_through_an_outage(no_pause, capsys):
    ended = httpx.Response(200, json=JOB)
    running = httpx.Response(200, json=RUNNING)
    looks = [running, page("one\nhal"), AWAY, httpx.Response(503), running, page("f\n")]
    with skep(Server(*looks, ended, page(complete=True), ended), ()) as client:
        followed(client)
    assert capsys.readouterr().out == "worker-0 | one\nworker-0 | half\n"


def test_the_unfinished_line_is_printed_where_the_following_ends_early(no_pause, capsys):
    looks = [httpx.Response(200, json=RUNNING), page("one\nhal"), refusal(401)]
    with skep(Server(*looks), ()) as client, pytest.raises(SkepError):
        followed(client)
    assert capsys.readouterr().out == "worker-0 | one\nworker-0 | hal\n"


def test_events_are_followed_through_an_outage(no_pause):
    from skep_client.follow import follow_events

    event = {"id": 1, "at": NOW, "kind": "job.queued", "message": "Queued."}
    listed = httpx.Response(200, json={"results": [event], "next": None})
    looks = [AWAY, httpx.Response(200, json=JOB), httpx.Response(503), listed]
    with skep(Server(*looks), ()) as client:
        assert [event.message for event in follow_events(client, ID)] == ["Queued."]


def test_a_transfer_is_begun_again_as_other_calls_are():
    server = Server(AWAY, httpx.Response(429), httpx.Response(503), httpx.Response(200, text="x"))
    with skep(server, (0, 0, 0)) as client:
        assert b"".join(client.download_logs(ID)) == b"x"
    with skep(Server(refusal(409)), (0,)) as client, pytest.raises(SkepError, match="No"):
        list(client.download_logs(ID))
    with skep(Server(AWAY), (0,)) as client, pytest.raises(ServerUnreachable):
        list(client.download_logs(ID))


async def test_an_async_transfer_is_begun_again():
    server = Server(AWAY, httpx.Response(503), httpx.Response(200, text="x"))
    transport = httpx.MockTransport(server)
    async with AsyncSkep("https://s.test", retry_delays_s=(0, 0), transport=transport) as client:
        assert [piece async for piece in client.download_logs(ID)] == [b"x"]
