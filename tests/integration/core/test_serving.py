"""The threads in which requests are answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from skep_platform.core.serving import Handler

begun, go_on = threading.Event(), threading.Event()
used: list[int] = []


def quick(_: HttpRequest) -> HttpResponse:
    used.append(threading.get_ident())
    return HttpResponse("done")


def text(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.GET["text"])


def slow(_: HttpRequest) -> HttpResponse:
    used.append(threading.get_ident())
    begun.set()
    go_on.wait(30)
    return HttpResponse("done")


def endless(_request: HttpRequest) -> StreamingHttpResponse:
    async def lines() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"line"
                begun.set()
                await asyncio.sleep(0)
        finally:
            go_on.set()

    return StreamingHttpResponse(lines())


urlpatterns = [
    path("quick", quick),
    path("text", text),
    path("slow", slow),
    path("endless", endless),
]


@pytest.fixture
def handler(settings: Any) -> Iterator[Handler]:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = __name__, []
    used.clear()
    begun.clear()
    go_on.clear()
    yield Handler()
    go_on.set()


async def ask(handler: Handler, where: str, *, leaves: bool = False, kind: str = "") -> list[Any]:
    """Return what was sent. `leaves`: the client goes when its request has reached the view."""
    sent: list[Any] = []
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b""}
        if leaves:
            assert await asyncio.to_thread(begun.wait, 30)
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": where,
        "query_string": b"text=%C3%B6",
        "headers": [(b"content-type", kind.encode())],
    }
    await handler(scope, receive, send)
    return sent


def test_one_request_after_the_other_uses_one_thread(handler: Handler) -> None:
    async def both() -> None:
        for _ in range(3):
            sent = await ask(handler, "/quick")
            assert [message.get("body") for message in sent] == [None, b"done"]

    asyncio.run(both())
    assert len(used) == 3
    assert len(set(used)) == 1


def test_a_thread_that_works_for_a_client_that_has_gone_is_not_waited_for(handler: Handler) -> None:
    async def both() -> None:
        left = asyncio.create_task(ask(handler, "/slow", leaves=True))
        assert await asyncio.to_thread(begun.wait, 30)
        sent = await asyncio.wait_for(ask(handler, "/quick"), 20)
        assert sent[0]["status"] == 200
        go_on.set()
        await left

    asyncio.run(both())
    assert used[0] != used[1]


def test_a_stream_ends_when_its_client_goes(handler: Handler) -> None:
    sent = asyncio.run(asyncio.wait_for(ask(handler, "/endless", leaves=True), 20))
    assert sent[1]["body"] == b"line"
    assert go_on.is_set()


@pytest.mark.parametrize(
    "kind", ["text/plain; charset=hex", "text/plain; charset=utf-16", "text/plain; x*=nonsense''a"]
)
def test_a_query_is_utf8_whatever_charset_is_named(handler: Handler, kind: str) -> None:
    sent = asyncio.run(ask(handler, "/text", kind=kind))
    assert [message.get("body") for message in sent] == [None, "ö".encode()]
