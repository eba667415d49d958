"""Pulling from a real registry that wants a password."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.support import components, docker_registry
from tests.support.docker_images import import_busybox, random_bytes
from tests.support.docker_registry import PASSWORD, USER, Registry
from tests.support.docker_tasks import make_spec, run

from skep_agent.protocol import ImageSpec
from skep_agent.runtimes.base import RuntimeFailure
from skep_agent.runtimes.docker_pull import PRIVATE_MARK

pytestmark = pytest.mark.docker


@pytest.fixture(scope="session")
def registry(tmp_path_factory) -> Iterator[Registry]:
    if reason := docker_registry.missing():
        (pytest.fail if components.must_be_complete() else pytest.skip)(reason)
    with docker_registry.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def pushed(registry, docker_engine) -> Iterator[Callable[..., str]]:
    """Push an image of this content and remove it from the node; returns its reference."""
    names: list[str] = []

    def push(size: int = 1024) -> str:
        repository = f"{registry.address}/team/image-{uuid.uuid4().hex[:8]}"
        name = import_busybox(docker_engine, f"{repository}:1", files={"blob": random_bytes(size)})
        names.append(name)
        answer = docker_engine.api.push(repository, tag="1", auth_config=registry.login())
        assert "errorDetail" not in answer
        docker_engine.images.remove(name)
        return name

    yield push
    for name in names:
        remove_everywhere(docker_engine, name)


def remove_everywhere(docker_engine, name: str) -> None:
    """By every tag and digest, and with the mark of a private image."""
    for image in docker_engine.images.list(name=name.rsplit(":", 1)[0]):
        docker_engine.images.remove(image.id, force=True)


def with_login(name: str, **fields) -> ImageSpec:
    return ImageSpec(reference=name, username=USER, password=PASSWORD, **fields)


async def refusal(runtime, image: ImageSpec) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.pull(image, lambda _: None)
    return refused.value


async def test_a_pull_tells_its_progress_and_the_image_runs(runtime, pushed):
    name, seen = pushed(20 * 1024 * 1024), []
    await runtime.pull(with_login(name), seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == 100
    assert len(seen) > 3
    ended = await run(runtime, make_spec(name, "wc -c < /blob"))
    assert ended.stdout.strip() == str(20 * 1024 * 1024)


async def test_an_image_by_digest_is_pulled(runtime, pushed, docker_engine):
    name = pushed()
    await runtime.pull(with_login(name), lambda _: None)
    (digest,) = docker_engine.images.get(name).attrs["RepoDigests"]
    remove_everywhere(docker_engine, name)
    await runtime.pull(with_login(digest), lambda _: None)
    assert (await run(runtime, make_spec(digest, "echo here"))).stdout == "here\n"


async def test_a_wrong_password_and_none_are_refused_as_such(runtime, pushed):
    name = pushed()
    wrong = ImageSpec(reference=name, username=USER, password="wrong")
    for image in (wrong, ImageSpec(reference=name)):
        assert (await refusal(runtime, image)).code == "image_auth"


async def test_what_the_registry_does_not_have_is_not_found(runtime, registry, pushed):
    nowhere = with_login(f"{registry.address}/team/nowhere:1")
    assert (await refusal(runtime, nowhere)).code == "image_not_found"
    other_tag = with_login(pushed().removesuffix(":1") + ":2")
    assert (await refusal(runtime, other_tag)).code == "image_not_found"


async def test_a_registry_that_does_not_answer_is_a_failed_pull(runtime):
    failure = await refusal(runtime, ImageSpec(reference="127.0.0.1:1/team/image:1"))
    assert failure.code == "image_pull"
    assert "127.0.0.1:1/team/image:1" in failure.message


async def test_attack_27_the_password_stays_nowhere_on_the_node(runtime, pushed, docker_engine):
    name = pushed()
    wrong = ImageSpec(reference=name, username=USER, password=PASSWORD + "x")
    assert PASSWORD not in (await refusal(runtime, wrong)).message
    image = with_login(name)
    await runtime.pull(image, lambda _: None)
    spec = make_spec(name, "env").model_copy(update={"image": image})
    container_id = await runtime.create(spec)
    assert PASSWORD not in json.dumps(docker_engine.api.inspect_container(container_id))
    assert PASSWORD not in json.dumps(docker_engine.api.inspect_image(name))
    assert PASSWORD not in repr(image)


@pytest.mark.parametrize("pull", ["missing", "never", "always"])
async def test_attack_28_another_tenants_private_image_is_not_had_from_the_cache(
    runtime, pushed, pull
):
    name = pushed()
    await runtime.pull(with_login(name), lambda _: None)
    stranger = ImageSpec(reference=name, pull=pull)
    assert (await refusal(runtime, stranger)).code == "image_auth"
    guesser = ImageSpec(reference=name, pull=pull, username=USER, password="guess")
    assert (await refusal(runtime, guesser)).code == "image_auth"


async def test_attack_28_the_mark_of_a_private_image_is_no_way_to_it(
    runtime, pushed, docker_engine
):
    name = pushed()
    await runtime.pull(with_login(name), lambda _: None)
    image_id = docker_engine.images.get(name).id.removeprefix("sha256:")
    for reference in (f"{PRIVATE_MARK}:{image_id}", image_id, image_id[:12]):
        with pytest.raises(RuntimeFailure):
            await runtime.pull(ImageSpec(reference=reference), lambda _: None)


async def test_the_owner_gets_a_cached_private_image_again(runtime, pushed):
    name, seen = pushed(), []
    await runtime.pull(with_login(name), lambda _: None)
    await runtime.pull(with_login(name, pull="missing"), seen.append)
    assert seen[-1] == 100


async def test_always_brings_the_newer_image_and_missing_keeps_the_old(
    runtime, registry, pushed, docker_engine
):
    name = pushed()
    await runtime.pull(with_login(name), lambda _: None)
    first = docker_engine.images.get(name).id
    import_busybox(docker_engine, name, files={"blob": b"newer"})
    docker_engine.api.push(
        name.removesuffix(":1"), tag="1", auth_config=registry.login(), stream=False
    )
    docker_engine.images.remove(name)
    await runtime.pull(with_login(name, pull="always"), lambda _: None)
    assert docker_engine.images.get(name).id != first
    assert (await run(runtime, make_spec(name, "cat /blob"))).stdout == "newer"
    docker_engine.images.remove(first, force=True)
