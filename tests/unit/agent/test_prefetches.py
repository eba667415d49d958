"""Images that an agent brings before a task asks for them, and what it reports of its cache."""

from __future__ import annotations

from tests.support.agent_process import AgentProcess
from tests.support.agent_server import FakeControlPlane

from skep_agent.protocol import ImageSpec, Prefetches, PrefetchSpec
from skep_agent.shell import prefetches


def wanted(prefetch_id: str, reference: str, **rules: object) -> PrefetchSpec:
    image = ImageSpec(reference=reference)
    return PrefetchSpec(prefetch_id=prefetch_id, image=image).model_copy(update=rules)


def states(server: FakeControlPlane, prefetch_id: str) -> list[str]:
    found = [one.state for one in server.node().prefetched if one.prefetch_id == prefetch_id]
    return list(dict.fromkeys(found))


def names(server: FakeControlPlane) -> list[str]:
    images = server.node().images
    return [one.reference for one in images.images] if images else []


async def test_an_image_is_brought_reported_and_listed(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    await server.until(lambda: server.node().images is not None)
    assert names(server) == []
    await server.say(Prefetches(images=[wanted("p1", "docker.io/library/busybox?pull_seconds=3")]))
    await server.until(lambda: "done" in states(server, "p1"))
    assert states(server, "p1") == ["pulling", "done"]
    halfway = [one for one in server.node().prefetched if 0 < one.percent < 100]
    assert all(0 < one.done < one.total for one in halfway)
    assert halfway
    await server.until(lambda: names(server))
    assert names(server) == ["busybox?pull_seconds=3:latest"]


async def test_one_that_fails_and_one_against_the_rules_say_why(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    await server.until(lambda: server.node().images is not None)
    failing = wanted("p1", "x:1?pull_error=image_not_found")
    refused = wanted("p2", "other/x:1", image_patterns=["vision/*"])
    latest = wanted("p3", "x", latest_images=False)
    await server.say(Prefetches(images=[failing, refused, latest]))
    await server.until(lambda: all("failed" in states(server, one) for one in ("p1", "p2", "p3")))
    said = {one.prefetch_id: one.message for one in server.node().prefetched}
    assert "no pattern of its virtual cluster" in said["p2"]
    assert "by the tag latest" in said["p3"]
    assert names(server) == []


async def test_a_pull_that_is_not_listed_any_more_is_given_up_and_the_next_begins(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    await server.until(lambda: server.node().images is not None)
    endless, short = wanted("p1", "x?pull_seconds=1000"), wanted("p2", "y")
    await server.say(Prefetches(images=[endless, short]))
    await server.until(lambda: "pulling" in states(server, "p1"))
    assert states(server, "p2") == []  # one at a time
    await server.say(Prefetches(images=[short]))
    await server.until(lambda: "done" in states(server, "p2"))
    assert states(server, "p1") == ["pulling"]


async def test_a_pull_that_waits_goes_by_the_rules_of_when_it_begins(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    await server.until(lambda: server.node().images is not None)
    endless = wanted("p1", "x?pull_seconds=1000")
    await server.say(Prefetches(images=[endless, wanted("p2", "y:1")]))
    await server.until(lambda: "pulling" in states(server, "p1"))
    refused = wanted("p2", "y:1", image_patterns=["vision/*"])
    await server.say(Prefetches(images=[endless, refused]))
    await server.say(Prefetches(images=[refused]))
    await server.until(lambda: "failed" in states(server, "p2"))
    assert names(server) == []


async def test_a_pull_without_progress_fails_and_the_next_begins(
    server: FakeControlPlane, agent: AgentProcess, monkeypatch
) -> None:
    await server.until(lambda: server.node().images is not None)
    monkeypatch.setattr(prefetches, "PULL_STALL_S", 2.0)
    images = [wanted("p1", "x?pull_seconds=1000"), wanted("p2", "y?pull_seconds=4")]
    await server.say(Prefetches(images=images))
    await server.until(lambda: "done" in states(server, "p2"))
    assert states(server, "p1") == ["pulling", "failed"]
    (said,) = {one.message for one in server.node().prefetched if one.state == "failed"}
    assert "no progress" in said


async def test_what_ended_while_the_server_was_away_is_reported_again(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    await server.until(lambda: server.node().images is not None)
    asked = Prefetches(images=[wanted("p1", "x")])
    await server.say(asked)
    await server.until(lambda: "done" in states(server, "p1"))
    await server.drop()
    server.node().prefetched.clear()
    server.node().images = None
    await server.until(lambda: server.node().socket and server.node().images is not None)
    await server.say(asked)
    await server.until(lambda: states(server, "p1") == ["done"])
