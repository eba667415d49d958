"""A node checks itself before it is used, and measures the network to the other one."""

from __future__ import annotations

import httpx
import pytest
from tests.support.stack import eventually

pytestmark = [pytest.mark.stack, pytest.mark.docker]


def test_a_node_is_used_again_when_its_agents_have_measured_the_network(api: httpx.Client):
    node, other = sorted(one["name"] for one in api.get("/nodes").json()["results"])
    api.post(f"/nodes/{node}/checks").raise_for_status()
    assert api.get(f"/nodes/{node}").json()["cordoned"]

    def state() -> str:
        return str(api.get(f"/nodes/{node}/checks").json()["results"][0])

    eventually(lambda: not api.get(f"/nodes/{node}").json()["cordoned"], 240, state)
    [newest, *_] = api.get(f"/nodes/{node}/checks").json()["results"]
    results = {one["name"]: one for one in newest["results"]}
    assert newest["state"] == "PASSED"
    assert results.keys() >= {"disk", "network", f"peer {other}"}
    measured = results[f"peer {other}"]
    assert (measured["passed"], measured["message"]) == (True, "")
    assert measured["numbers"]["out_mb_s"] > 0
    assert measured["numbers"]["all_reduce_mb_s"] > 0
