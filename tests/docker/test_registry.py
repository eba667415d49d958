"""Pulling from a real registry that wants a password."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support import docker_registry
from tests.support.docker_images import import_busybox, random_bytes
from tests.support.docker_registry import OTHER, OTHER_PASSWORD, PASSWORD, USER, Registry
from tests.support.docker_tasks import make_spec, run

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import AttemptSpec, ImageSpec
from skep_agent.registry_policy import RegistryPolicy
from skep_agent.runtimes import docker_images
from skep_agent.runtimes.docker import DockerRuntime
from skep_agent.runtimes.docker_images import PRIVATE_MARK

pytestmark = pytest.mark.docker


@pytest.fixture(scope="session")
def registry(tmp_path_factory) -> Iterator[Registry]:
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


def spec_of(image: ImageSpec, command: str) -> AttemptSpec:
    return make_spec(image.reference, command).model_copy(update={"image": image})


async def refusal(runtime, image: ImageSpec) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.pull(image, lambda _: None)
    return refused.value


async def test_a_pull_reports_its_progress_and_the_image_runs(runtime, pushed):
    name, seen = pushed(20 * 1024 * 1024), []
    await runtime.pull(with_login(name), seen.append)
    percents = [one.percent for one in seen]
    assert percents == sorted(set(percents))
    assert percents[-1] == 100
    assert 0 < percents[0] < 100  # how many more depends on the disk
    most = seen[-2]
    assert 20 * 1024 * 1024 <= most.done <= most.total < 40 * 1024 * 1024
    ended = await run(runtime, spec_of(with_login(name), "wc -c < /blob"))
    assert ended.stdout.strip() == str(20 * 1024 * 1024)


async def test_an_image_by_digest_is_pulled(runtime, pushed, docker_engine):
    name = pushed()
    await runtime.pull(with_login(name), lambda _: None)
    (digest,) = docker_engine.images.get(name).attrs["RepoDigests"]
    remove_everywhere(docker_engine, name)
    await runtime.pull(with_login(digest), lambda _: None)
    ended = await run(runtime, spec_of(with_login(digest), "echo here"))
    assert ended.stdout == "here\n"


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
    container_id = await runtime.create(spec_of(image, "env"))
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


async def test_28_two_users_of_a_registry_share_a_cached_image_as_long_as_each_may_pull_it(
    runtime, registry, pushed, monkeypatch
):
    name = pushed()
    other = ImageSpec(reference=name, username=OTHER, password=OTHER_PASSWORD)
    await runtime.pull(with_login(name), lambda _: None)
    await runtime.pull(other, lambda _: None)
    assert (await run(runtime, spec_of(other, "echo other"))).stdout == "other\n"
    assert (await refusal(runtime, ImageSpec(reference=name))).code == "image_auth"

    monkeypatch.setattr(docker_images, "ANSWER_S", 0.0)
    registry.let_in(**{USER: PASSWORD})
    try:
        assert (await refusal(runtime, other)).code == "image_auth"
        await runtime.pull(with_login(name), lambda _: None)
        assert (await run(runtime, spec_of(with_login(name), "echo mine"))).stdout == "mine\n"
    finally:
        registry.let_in(**{USER: PASSWORD, OTHER: OTHER_PASSWORD})


async def test_28_the_tasks_of_a_gang_ask_the_registry_once(runtime, registry, pushed):
    name = pushed()
    repository = name.removeprefix(f"{registry.address}/").removesuffix(":1")
    other = ImageSpec(reference=name, username=OTHER, password=OTHER_PASSWORD)
    await runtime.pull(with_login(name), lambda _: None)
    for image in (with_login(name), other, other):
        await asyncio.gather(*(runtime.pull(image, lambda _: None) for _ in range(8)))
    # The pull, and one question with other credentials; each is a few requests of the engine.
    assert registry.manifests_asked(repository) <= 6


async def test_28_a_refusal_is_not_remembered(runtime, registry, pushed):
    name = pushed()
    other = ImageSpec(reference=name, username=OTHER, password=OTHER_PASSWORD)
    await runtime.pull(with_login(name), lambda _: None)
    registry.let_in(**{USER: PASSWORD})
    try:
        assert (await refusal(runtime, other)).code == "image_auth"
    finally:
        registry.let_in(**{USER: PASSWORD, OTHER: OTHER_PASSWORD})
    await runtime.pull(other, lambda _: None)


async def test_the_owner_gets_a_cached_private_image_again(runtime, pushed):
    name, seen = pushed(), []
    await runtime.pull(with_login(name), lambda _: None)
    await runtime.pull(with_login(name, pull="missing"), seen.append)
    assert seen[-1].percent == 100


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
    assert (await run(runtime, spec_of(with_login(name), "cat /blob"))).stdout == "newer"
    docker_engine.images.remove(first, force=True)


async def test_a_private_image_moved_to_other_content_is_not_given_at_the_creation(
    runtime, registry, pushed, docker_engine
):
    """Pulled while public, another tenant's by the time that the container is made."""
    name = pushed()
    content = docker_registry_image(docker_engine, name)
    await runtime.pull(ImageSpec(reference=name, pull="never"), lambda _: None)
    docker_engine.images.remove(content, force=True)
    await runtime.pull(with_login(name), lambda _: None)
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.create(make_spec(name, "cat /blob"))
    assert refused.value.code == "image_auth"


def docker_registry_image(docker_engine, name: str) -> str:
    """Content that the node's administrator loaded under that name."""
    return docker_engine.images.get(import_busybox(docker_engine, name)).id


@pytest.fixture
def opened(tmp_path, docker_engine) -> Iterator[tuple[str, Callable[[], None]]]:
    """An image in a registry that asks no one for a password, and how to end that registry."""
    with contextlib.ExitStack() as stack:
        registry = stack.enter_context(docker_registry.registry(tmp_path, is_open=True))
        repository = f"{registry.address}/public/image-{uuid.uuid4().hex[:8]}"
        name = import_busybox(docker_engine, f"{repository}:1", files={"blob": random_bytes(100)})
        assert "errorDetail" not in docker_engine.api.push(repository, tag="1")
        docker_engine.images.remove(name)
        yield name, stack.close
        remove_everywhere(docker_engine, name)


@pytest.mark.parametrize("pull", ["missing", "never"])
async def test_finding_u11_an_auth_for_a_public_image_takes_it_from_no_one(runtime, opened, pull):
    """Everybody else starts it from the node's cache, also when no registry is reached."""
    name, end_registry = opened
    await runtime.pull(with_login(name), lambda _: None)
    end_registry()
    await runtime.pull(ImageSpec(reference=name, pull=pull), lambda _: None)
    ended = await run(runtime, make_spec(name, "echo here"))
    assert ended.stdout == "here\n"


async def test_finding_u11_an_auth_for_an_image_of_the_nodes_administrator_takes_it_from_no_one(
    runtime, pushed, docker_engine
):
    """Loaded onto an air-gapped node before; its registry would ask for a password."""
    name = pushed()
    docker_engine.api.pull(name.removesuffix(":1"), "1", auth_config=login_of_the_registry())
    await runtime.pull(with_login(name, pull="always"), lambda _: None)
    stranger = ImageSpec(reference=name, pull="never")
    await runtime.pull(stranger, lambda _: None)
    assert (await run(runtime, make_spec(name, "echo here"))).stdout == "here\n"


def login_of_the_registry() -> dict[str, str]:
    return {"username": USER, "password": PASSWORD}


async def test_finding_u11_private_content_needs_the_registrys_word_for_ones_own_credentials(
    runtime, pushed, docker_engine
):
    name, seen = pushed(), []
    await runtime.pull(with_login(name), lambda _: None)
    await runtime.pull(with_login(name, pull="never"), seen.append)
    assert [one.percent for one in seen] == [100]  # the word, and not the whole image again
    ended = await run(runtime, spec_of(with_login(name), "echo mine"))
    assert ended.stdout == "mine\n"
    wrong = with_login(name).model_copy(update={"password": "wrong"})
    assert (await refusal(runtime, wrong)).code == "image_auth"


async def test_finding_u11_private_content_whose_registry_is_gone_is_given_to_no_one(
    cluster, tmp_path, docker_engine, monkeypatch
):
    runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True))
    with docker_registry.registry(tmp_path) as closed:
        name = f"{closed.address}/team/image-{uuid.uuid4().hex[:8]}:1"
        import_busybox(docker_engine, name, files={"blob": random_bytes(100)})
        docker_engine.api.push(name[:-2], tag="1", auth_config=closed.login())
        docker_engine.images.remove(name)
        await runtime.pull(with_login(name), lambda _: None)
    for image in (with_login(name), ImageSpec(reference=name)):
        failure = await refusal(runtime, image)
        assert failure.code == "image_pull"
        assert "its registry" in failure.message
    remove_everywhere(docker_engine, name)
    await runtime.close()


def write_unsettled(state: Path, reference: str) -> None:
    rows = [{"reference": reference, "before": []}]
    (state / "private-pulls.json").write_text(json.dumps(rows))


def unsettled(state: Path) -> list:
    return json.loads((state / "private-pulls.json").read_text())


async def test_finding_u11_a_pull_with_credentials_that_the_agent_did_not_outlive_stays_private(
    cluster, pushed, tmp_path, docker_engine
):
    name = pushed()
    write_unsettled(tmp_path, name)
    docker_engine.api.pull(name.removesuffix(":1"), "1", auth_config=login_of_the_registry())
    node = NodeFacts(cluster, "node-1", simulated_gpus=True)
    runtime = DockerRuntime(node, state=tmp_path)
    assert (await refusal(runtime, ImageSpec(reference=name))).code == "image_auth"
    await runtime.close()
    assert unsettled(tmp_path) == []
    runtime = DockerRuntime(node, state=tmp_path)
    assert (await refusal(runtime, ImageSpec(reference=name))).code == "image_auth"
    await runtime.close()


async def test_finding_u11_no_one_uses_what_is_being_pulled_with_credentials(runtime, pushed):
    """The content is on the node some time before its mark."""
    name = pushed(5 * 1024 * 1024)
    stranger = ImageSpec(reference=name, pull="never")

    async def try_again() -> set[str]:
        codes: set[str] = set()
        while "image_auth" not in codes:
            try:
                await runtime.pull(stranger, lambda _: None)
                codes.add("had it")
            except RuntimeFailure as failure:
                codes.add(failure.code)
        return codes

    trying = asyncio.create_task(try_again())
    await runtime.pull(with_login(name), lambda _: None)
    assert await asyncio.wait_for(trying, 60) <= {"image_not_found", "image_auth"}


async def test_finding_s21_the_beginning_of_an_image_id_runs_no_cached_image(
    runtime, busybox, docker_engine
):
    image_id = docker_engine.images.get(busybox).id.removeprefix("sha256:")
    for length in (4, 12, 40, 63, 64):
        for reference in (image_id[:length], f"sha256:{image_id[:length]}"):
            failure = await refusal(runtime, ImageSpec(reference=reference, pull="never"))
            assert failure.code in ("image_not_found", "spec_refused")
            with pytest.raises(RuntimeFailure):
                await runtime.create(make_spec(reference, "true"))


async def test_finding_s21_a_name_that_looks_like_an_id_is_a_name(runtime, docker_engine):
    image_id = import_busybox(docker_engine, "deadbeef1234:1")
    try:
        assert (await run(runtime, make_spec(image_id, "echo named"))).stdout == "named\n"
        default = ImageSpec(reference="docker.io/library/deadbeef1234:1", pull="never")
        await runtime.pull(default, lambda _: None)
    finally:
        docker_engine.images.remove(image_id, force=True)


async def test_finding_s9_a_registry_on_loopback_is_never_asked(cluster):
    """A service that only counts who talks to it stands where the image is said to be."""
    asked = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    runtime = DockerRuntime(NodeFacts(cluster, "node-1"), registries=RegistryPolicy())
    try:
        failure = await refusal(runtime, ImageSpec(reference=f"127.0.0.1:{port}/team/image:1"))
        assert failure.code == "spec_refused"
        assert asked == []
    finally:
        server.close()


async def test_the_names_of_all_images_are_listed_without_our_marks(runtime, pushed):
    private = pushed()
    await runtime.pull(with_login(private), lambda _: None)
    found = {one.reference: one.size for one in await runtime.images()}
    assert found[private] > 1024
    assert not any(name.startswith(PRIVATE_MARK) or "<none>" in name for name in found)
    assert any(name.startswith(f"{private.rsplit(':', 1)[0]}@sha256:") for name in found)
