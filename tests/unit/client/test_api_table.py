"""Both clients have the same methods, made from one table of calls."""

from __future__ import annotations

import inspect

import httpx
import pytest

from skep_client import calls
from skep_client.api_table import Api, Method, Pages
from skep_client.client import AsyncSkep, Skep

TABLE = {name: entry for name, entry in vars(Api).items() if isinstance(entry, Method | Pages)}
# Requests that take several steps or a stream: written out in both clients.
WRITTEN_OUT = {
    *("token", "readyz", "archive", "upload", "start_device_login", "device_token"),
    *("download_logs", "search_logs", "export_audit", "export_trace"),
    "export_node_events",
}


def test_every_call_is_a_method():
    functions = {
        name
        for name, value in vars(calls).items()
        if inspect.isfunction(value)
        and value.__module__.startswith(calls.__name__)
        and name[0] != "_"
    }
    assert functions - WRITTEN_OUT - {"following", "given", "named"} == set(TABLE)


def test_every_method_of_both_clients_has_a_docstring():
    for client in (Skep, AsyncSkep):
        public = [name for name in dir(client) if name[0] != "_"]
        assert [name for name in public if not getattr(client, name).__doc__] == []


NODE = {"id": "1", "name": "n1"}


def answer(request: httpx.Request) -> httpx.Response:
    if "cursor=2" in str(request.url):
        return httpx.Response(200, json={"results": [NODE | {"name": "n2"}], "next": None})
    if request.url.path.endswith("/nodes"):
        page = {"results": [NODE], "next": "https://s/api/v1/nodes?cursor=2"}
        return httpx.Response(200, json=page)
    return httpx.Response(200, json=NODE | {"cordoned": True})


def test_a_call_blocks():
    with Skep("https://s", transport=httpx.MockTransport(answer)) as skep:
        assert skep.cordon("n1").cordoned
        assert [node.name for node in skep.nodes()] == ["n1", "n2"]


@pytest.mark.asyncio
async def test_the_same_call_is_awaited():
    async with AsyncSkep("https://s", transport=httpx.MockTransport(answer)) as skep:
        assert (await skep.cordon("n1")).cordoned
        assert [node.name async for node in skep.nodes()] == ["n1", "n2"]
