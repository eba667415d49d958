"""A running container that is pushed as an image to a real registry which wants a password."""

from __future__ import annotations

import io
import json
import tarfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import docker
import httpx
import pytest
from tests.support import docker_registry
from tests.support.docker_proxy import Proxy, unix_proxy
from tests.support.docker_registry import MANIFEST, PASSWORD, USER, Registry
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import AttemptSpec, FileSpec, ImageSpec
from skep_agent.registry_policy import RegistryPolicy
from skep_agent.runtimes import docker_save
from skep_agent.runtimes.base import SaveOrder
from skep_agent.runtimes.docker import DockerRuntime
from skep_agent.runtimes.docker_endpoints import is_allowed

pytestmark = pytest.mark.docker

SECRET = "hunter2-of-the-job"
IMAGE_ENV = ["PATH=/bin", "FRAMEWORK=torch"]
CHANGES = (
    *("ENV PATH=/bin FRAMEWORK=torch", 'ENTRYPOINT ["/bin/env"]', 'CMD ["--help"]'),
    *("WORKDIR /srv", "LABEL vendor=example"),
)


@pytest.fixture(scope="session")
def registry(tmp_path_factory) -> Iterator[Registry]:
    with docker_registry.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def target(registry, docker_engine) -> Iterator[str]:
    name = f"{registry.address}/team/saved-{uuid.uuid4().hex[:8]}:1"
    yield name
    for image in docker_engine.images.list(name=name.rpartition(":")[0]):
        for known in (*image.tags, *image.attrs["RepoDigests"]):  # others may use its content
            if known.startswith(name.rpartition(":")[0]):
                with suppress(docker.errors.ImageNotFound):  # a digest goes with the last tag
                    docker_engine.api.remove_image(known)


@pytest.fixture
async def node(cluster: str, tmp_path) -> AsyncIterator[DockerRuntime]:
    facts = NodeFacts(cluster, "node-1", simulated_gpus=True)
    registries = RegistryPolicy(("public", "127.0.0.0/8"))
    proxy = Proxy(is_allowed)  # what the agent asks of the engine is on the list
    async with unix_proxy(proxy) as path:
        runtime = DockerRuntime(facts, path, state=tmp_path, registries=registries)
        yield runtime
        await runtime.close()
    assert proxy.refused == []


def labelled(engine: docker.DockerClient, label: str) -> set[str]:
    """The images with a label of a test's own: other tests make and remove images meanwhile."""
    return {one.id for one in engine.images.list(all=True, filters={"label": label})}


def order(reference: str, **fields: object) -> SaveOrder:
    defaults: dict = {
        "target": ImageSpec(reference=reference, username=USER, password=PASSWORD),
        "max_bytes": 2**30,
        "masks": [SECRET],
        "pushed": lambda _: None,
        "still_running": lambda: True,
    }
    return SaveOrder(**(defaults | fields))


def task(image: str, command: str) -> AttemptSpec:
    """A task with all that the platform gives one, which runs until it is stopped."""
    return make_spec(
        image,
        f"{command}; touch /tmp/ready; sleep 600",
        env={"PLAIN": "plain-of-the-job"},
        secret_env={"SKEP_TOKEN": SECRET},
        files=[FileSpec(path="/run/skep/ssh/id_ed25519", content="host-key", mode=0o400)],
        masks=[SECRET],
    )


async def started(runtime: DockerRuntime, spec: AttemptSpec, engine: docker.DockerClient) -> str:
    """Start it, and wait until its command did what comes before the sleep."""
    container_id = await start(runtime, spec)
    container = engine.containers.get(container_id)
    waiting = "until [ -e /tmp/ready ]; do sleep 0.1; done; rm /tmp/ready"
    assert container.exec_run(["/bin/sh", "-c", waiting]).exit_code == 0
    return container_id


def pushed(registry: Registry, reference: str) -> tuple[dict, dict, str]:
    """Return manifest, configuration and digest of what the registry has."""
    repository, _, tag = reference.removeprefix(f"{registry.address}/").rpartition(":")
    base = f"http://{registry.address}/v2/{repository}"
    get = {"auth": (USER, PASSWORD), "headers": {"Accept": MANIFEST}, "timeout": 60}
    answer = httpx.get(f"{base}/manifests/{tag}", **get).raise_for_status()
    manifest = answer.json()
    config = httpx.get(f"{base}/blobs/{manifest['config']['digest']}", **get).raise_for_status()
    return manifest, config.json(), answer.headers["docker-content-digest"]


def newest_layer(registry: Registry, reference: str) -> list[str]:
    """Return the names in the last layer of what the registry has."""
    manifest, _, _ = pushed(registry, reference)
    repository = reference.removeprefix(f"{registry.address}/").rpartition(":")[0]
    address = f"http://{registry.address}/v2/{repository}/blobs/{manifest['layers'][-1]['digest']}"
    blob = httpx.get(address, auth=(USER, PASSWORD), timeout=60).raise_for_status().content
    with tarfile.open(fileobj=io.BytesIO(blob)) as files:
        return files.getnames()


@pytest.fixture(params=["on its image", "as one layer"])
def layered(request, monkeypatch) -> bool:
    """How the engine keeps images: with containerd it loads none without all layers."""
    if request.param == "as one layer":

        async def yes(_: object) -> bool:
            return True

        monkeypatch.setattr(docker_save.Saver, "_loads_whole_images", yes)
    return request.param == "on its image"


async def test_what_the_task_changed_is_pushed_on_top_of_its_image_and_nothing_of_the_platform(
    node, registry, made_image, docker_engine, target, layered
):
    image = made_image(*CHANGES)
    change = (
        "mkdir -p /opt/env && echo installed > /opt/env/package && rm /bin/wget && "
        "rm -r /var && mkdir /var && echo new > /var/new && echo more >> /etc/passwd && "
        "ln /opt/env/package /opt/env/link && ln -s package /opt/env/soft"
    )
    container_id = await started(node, task(image, change), docker_engine)
    percents: list[int] = []
    saved = await node.save(container_id, order(target, pushed=percents.append))
    assert docker_engine.containers.get(container_id).status == "running"

    manifest, config, digest = pushed(registry, target)
    assert saved.digest == digest
    assert percents == sorted(percents)
    assert len(manifest["layers"]) == (2 if layered else 1)
    assert 0 < saved.size < 4096 if layered else saved.size > 4096
    shown = config["config"]
    assert shown["Env"] == IMAGE_ENV
    assert (shown["Entrypoint"], shown["Cmd"]) == (["/bin/env"], ["--help"])
    assert (shown["WorkingDir"], shown["Labels"]) == ("/srv", {"vendor": "example"})
    assert shown.get("User", "") == ""
    everything = json.dumps(config)
    for of_the_job in ("plain-of-the-job", SECRET, "skep.", "SKEP_", "sleep 600", "/run/skep"):
        assert of_the_job not in everything
    assert not {"container", "container_config", "docker_version"} & config.keys()

    mine = ImageSpec(reference=target, username=USER, password=PASSWORD)
    looks = (
        "cat /opt/env/package /opt/env/link /opt/env/soft /var/new; tail -n 1 /etc/passwd; "
        "for gone in /bin/wget /run/skep/ssh /tmp/ready; do [ -e $gone ] && echo $gone; done; "
        "ls /var; ls /run/skep | wc -l"
    )
    await node.pull(mine, lambda _: None)
    looked = make_spec(target, looks).model_copy(update={"image": mine})
    ended = await run(node, looked)
    assert ended.stdout.split() == ["installed"] * 3 + ["new", "more", "new", "0"], ended


@pytest.fixture
def with_a_driver(cluster, busybox, docker_engine, tmp_path) -> Iterator[str]:
    """A task into which a library, a file and a folder of the node are mounted, as nvidia's runtime
    does it, with the link that it makes."""
    lib, fw = "/usr/lib/libfake.so.570.86", "/lib/firmware/fake/570.86/gsp.bin"
    (tmp_path / "file").write_text("of the node")
    binds = [f"{tmp_path}/file:{lib}:ro", f"{tmp_path}/file:{fw}:ro", f"{tmp_path}:/mnt/data:ro"]
    made = docker_engine.containers.run(
        busybox,
        ["sh", "-c", "ln -s libfake.so.570.86 /usr/lib/libfake.so.1; touch /ready; sleep 600"],
        volumes=binds,
        labels={"skep.cluster": cluster, "skep.node": "node-1"},
        detach=True,
    )
    waiting = ["sh", "-c", "until [ -e /ready ]; do sleep 0.1; done"]
    assert made.exec_run(waiting).exit_code == 0
    yield made.id
    made.remove(force=True)


async def test_mount_points_of_the_nodes_driver_are_not_in_the_image(
    node, registry, docker_engine, target, with_a_driver
):
    await node.save(with_a_driver, order(target))
    names = newest_layer(registry, target)
    assert "ready" in names
    assert [one for one in names if "fake" in one or "firmware" in one or "mnt" in one] == []


async def test_33_the_node_keeps_neither_the_image_nor_its_name_and_no_one_gets_it_by_that(
    node, registry, made_image, docker_engine, target, monkeypatch
):
    label = f"skep.test={uuid.uuid4().hex}"
    image = made_image(f"LABEL {label}")
    before = docker_engine.images.get(image)
    before.tag(target.rpartition(":")[0], "1")  # what an image of this name was before
    container_id = await started(node, task(image, "echo mine > /root/x"), docker_engine)
    seen: list[RuntimeFailure | None] = []
    push = docker_save.Saver._push

    async def looked(saver, asked):
        assert labelled(docker_engine, label) > {before.id}  # the filter sees the image to push
        try:  # as a task of another tenant would
            await node.pull(ImageSpec(reference=target, pull="never"), lambda _: None)
            seen.append(None)
        except RuntimeFailure as failure:
            seen.append(failure)
        return await push(saver, asked)

    monkeypatch.setattr(docker_save.Saver, "_push", looked)
    await node.save(container_id, order(target))
    assert [one and one.code for one in seen] == ["image_not_found"]
    assert docker_engine.images.get(target).id == before.id
    assert labelled(docker_engine, label) == {before.id}


async def test_33_a_secret_in_a_file_and_too_much_are_refused_before_anything_is_pushed(
    node, registry, made_image, docker_engine, target
):
    command = 'echo "token: $SKEP_TOKEN" > /root/login; head -c 3000000 /dev/zero > /big'
    container_id = await started(node, task(made_image(), command), docker_engine)
    for asked, code in (
        (order(target), "save_has_secret"),
        (order(target, masks=[], max_bytes=2_000_000), "save_too_large"),
        (order(target, masks=[], still_running=lambda: False), "not_running"),
    ):
        with pytest.raises(RuntimeFailure) as refused:
            await node.save(container_id, asked)
        assert refused.value.code == code
        assert SECRET not in refused.value.message
        if code == "save_has_secret":
            assert "/root/login" in refused.value.message
    with pytest.raises(httpx.HTTPStatusError):
        pushed(registry, target)


async def test_33_a_hard_link_to_a_file_of_the_platform_ends_the_save(
    node, registry, made_image, docker_engine, target, layered
):
    command = "mkdir -p /var && ln /run/skep/ssh/id_ed25519 /var/stolen"
    container_id = await started(node, task(made_image(), command), docker_engine)
    with pytest.raises(RuntimeFailure) as refused:
        await node.save(container_id, order(target))
    assert refused.value.code == "save_failed"


async def test_a_registry_that_refuses_says_so_and_the_password_stays_nowhere(
    node, made_image, docker_engine, target
):
    label = f"skep.test={uuid.uuid4().hex}"
    image = made_image(f"LABEL {label}")
    container_id = await started(node, task(image, "true"), docker_engine)
    wrong = ImageSpec(reference=target, username=USER, password="wrong-password")
    with pytest.raises(RuntimeFailure) as refused:
        await node.save(container_id, order(target, target=wrong))
    assert refused.value.code == "push_denied"
    assert "wrong-password" not in refused.value.message
    assert labelled(docker_engine, label) == {docker_engine.images.get(image).id}
    closed = ImageSpec(reference="10.0.0.1/x:1", username=USER, password=PASSWORD)
    with pytest.raises(RuntimeFailure) as refused:
        await node.save(container_id, order("", target=closed))
    assert refused.value.code == "spec_refused"


async def test_a_container_of_another_node_or_one_that_ended_is_not_saved(
    node, cluster, busybox, docker_engine, target
):
    spec = task(busybox, "true")
    container_id = await started(node, spec, docker_engine)
    other = DockerRuntime(NodeFacts(cluster, "node-2", simulated_gpus=True))
    try:
        with pytest.raises(RuntimeFailure) as refused:
            await other.save(container_id, order(target))
        assert refused.value.code == "not_running"
    finally:
        await other.close()
    with suppress(docker.errors.APIError):
        docker_engine.containers.get(container_id).kill()
    with pytest.raises(RuntimeFailure) as refused:
        await node.save(container_id, order(target))
    assert refused.value.code == "not_running"
