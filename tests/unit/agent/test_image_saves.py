"""Containers that an agent saves as images: what it checks again, and what it reports."""

from __future__ import annotations

import pytest
from tests.support.agent_process import AgentProcess
from tests.support.agent_server import FakeControlPlane
from tests.support.agent_specs import spec

from skep_agent.protocol import ImageSaveReport, ImageSaves, ImageSaveSpec, ImageSpec


@pytest.fixture
async def server(server: FakeControlPlane, agent: AgentProcess) -> FakeControlPlane:
    """With one task that runs, one whose container cannot be saved, and one that waits."""
    await server.desire(
        spec("a1", command="mock run_for=forever"),
        spec("a2", command="mock run_for=forever save_error=push_denied"),
        spec("a3", command="mock run_for=forever", desired="hold"),
    )
    await server.until(lambda: all("running" in server.node().phases(a) for a in ("a1", "a2")))
    await server.until(lambda: "ready" in server.node().phases("a3"))
    return server


def wanted(save_id: str, attempt_id: str = "a1", **fields: object) -> ImageSaveSpec:
    image = ImageSpec(reference="registry.example.org/x:1", username="u", password="p")
    known = ImageSaveSpec(
        save_id=save_id, attempt_id=attempt_id, epoch=1, image=image, max_bytes=10
    )
    return known.model_copy(update=fields)


def reports(server: FakeControlPlane, save_id: str) -> list[ImageSaveReport]:
    return [one for one in server.node().saved if one.save_id == save_id]


async def end_of(server: FakeControlPlane, save_id: str) -> ImageSaveReport:
    def ends() -> list[ImageSaveReport]:
        return [one for one in reports(server, save_id) if one.state in ("done", "failed")]

    await server.until(ends)
    return ends()[-1]


async def test_a_running_container_is_saved_and_its_digest_reported(
    server: FakeControlPlane,
) -> None:
    await server.say(ImageSaves(saves=[wanted("s1")]))
    done = await end_of(server, "s1")
    assert (done.state, done.percent) == ("done", 100)
    assert done.digest.startswith("sha256:")
    assert done.size > 0
    assert reports(server, "s1")[0].state == "saving"


async def test_what_runs_no_more_is_of_an_older_epoch_or_against_the_rules_is_refused(
    server: FakeControlPlane,
) -> None:
    anonymous = ImageSpec(reference="registry.example.org/x:1")
    asked = {
        "unknown": (wanted("unknown", "a9"), "not_running"),
        "waits": (wanted("waits", "a3"), "not_running"),
        "older": (wanted("older", epoch=7), "not_running"),
        "rules": (wanted("rules", image_patterns=["vision/*"]), "spec_refused"),
        "nothing": (wanted("nothing", max_bytes=0), "spec_refused"),
        "anonymous": (wanted("anonymous", image=anonymous), "spec_refused"),
        "registry": (wanted("registry", "a2"), "push_denied"),
    }
    await server.say(ImageSaves(saves=[one for one, _ in asked.values()]))
    for save_id, (_, code) in asked.items():
        ended = await end_of(server, save_id)
        assert (ended.state, ended.code) == ("failed", code)
        assert ended.message


async def test_an_end_is_reported_again_until_the_server_lists_it_no_more(
    server: FakeControlPlane,
) -> None:
    """The report may be lost with its connection."""
    await server.say(ImageSaves(saves=[wanted("s1")]))
    await end_of(server, "s1")
    await server.say(ImageSaves(saves=[wanted("s1")]))

    def ends() -> int:
        return sum(one.state == "done" for one in reports(server, "s1"))

    await server.until(lambda: ends() == 2)
    await server.say(ImageSaves(saves=[]))
    await server.say(ImageSaves(saves=[wanted("s2")]))
    await end_of(server, "s2")
    assert ends() == 2


async def test_a_save_that_was_cancelled_is_given_up_and_the_next_one_gets_its_turn(
    server: FakeControlPlane,
) -> None:
    await server.desire(
        spec("a4", command="mock run_for=forever save_for=forever"),
        spec("a5", command="mock run_for=forever"),
    )
    await server.until(lambda: all("running" in server.node().phases(a) for a in ("a4", "a5")))
    await server.say(ImageSaves(saves=[wanted("slow", "a4"), wanted("next", "a5")]))
    await server.until(lambda: reports(server, "slow"))
    await server.say(ImageSaves(saves=[wanted("next", "a5")]))
    await end_of(server, "next")
    assert [one.state for one in reports(server, "slow")] == ["saving"]
