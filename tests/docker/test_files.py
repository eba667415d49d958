"""What the platform puts into a container, seen from inside and from outside."""

from __future__ import annotations

import io
import json
import socket
import tarfile
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.support.archives import entry, folder, named, packed, symlink
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.config import interface_of
from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import FileSpec
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker

SECRET = "k3y with 'quotes' and $dollars"


@pytest.fixture
def image_after(docker_engine, busybox) -> Iterator[Callable[[str], str]]:
    """What an image becomes by a command that was run in it."""
    made: list[str] = []

    def make(command: str) -> str:
        container = docker_engine.containers.create(busybox, command=["/bin/sh", "-c", command])
        container.start()
        container.wait()
        tag = uuid.uuid4().hex[:12]
        container.commit("skep-test/after", tag=tag)
        container.remove()
        made.append(f"skep-test/after:{tag}")
        return made[-1]

    yield make
    for name in made:
        docker_engine.images.remove(name, force=True)


async def test_files_are_there_when_the_command_starts(runtime, busybox):
    files = [
        FileSpec(path="/run/skep/hostfile", content="worker-0 slots=2\n"),
        FileSpec(path="/run/skep/ssh/id_ed25519", content="key\n", mode=0o400),
        FileSpec(path="/run/skep/ssh/run", content="#!/bin/sh\n", mode=0o6777),
    ]
    command = (
        "cd /run/skep; cat hostfile ssh/id_ed25519; stat -c '%a %n' . ssh hostfile ssh/id* ssh/run"
    )
    ended = await run(runtime, make_spec(busybox, command, files=files))
    assert ended.stdout.splitlines() == [
        "worker-0 slots=2",
        "key",
        "755 .",
        "755 ssh",
        "444 hostfile",
        "400 ssh/id_ed25519",
        "755 ssh/run",
    ]


@pytest.mark.parametrize("user", ["bee", "1000", "1000:1000"])
async def test_a_task_that_is_not_root_owns_its_files(runtime, made_image, user):
    files = [FileSpec(path="/run/skep/ssh/id_ed25519", content="key\n", mode=0o400)]
    command = "cat /run/skep/ssh/id_ed25519 && stat -c %u:%g /run/skep/ssh/id_ed25519; id -u"
    spec = make_spec(made_image(f"USER {user}"), command, files=files, secret_env={"A": "1"})
    assert (await run(runtime, spec)).stdout == "key\n1000:1000\n1000\n"


@pytest.mark.parametrize(
    "before", ["mkdir -p /run/x; busybox ln -s /etc /run/skep", "busybox ln -s /var /run"]
)
async def test_links_of_an_image_do_no_harm(runtime, image_after, before):
    """The engine unpacks within the container; our folders replace what stands in their place."""
    files = [FileSpec(path="/run/skep/hostfile", content="here\n")]
    spec = make_spec(image_after(before), "cat /run/skep/hostfile; ls /etc", files=files)
    assert (await run(runtime, spec)).stdout.splitlines()[0] == "here"


async def test_attack_27_no_description_of_the_container_shows_a_secret(
    runtime, busybox, docker_engine
):
    command = f"set -e\necho \"$TOKEN\" '{SECRET[:4]}'\nsleep 60"
    spec = make_spec(
        busybox, command, secret_env={"TOKEN": SECRET}, env={"PLAIN": "1"}, masks=[SECRET]
    )
    container_id = await start(runtime, spec)
    inspected = docker_engine.api.inspect_container(container_id)
    processes = docker_engine.api.top(container_id, ps_args="-eo pid,args")
    for shown in (inspected, processes, docker_engine.api.containers(all=True), repr(spec)):
        assert "k3y" not in (shown if isinstance(shown, str) else json.dumps(shown))
    assert "PLAIN=1" in inspected["Config"]["Env"]
    async for _, line, _ in runtime.logs(container_id):
        assert line.decode() == f"{SECRET} k3y \n"
        break
    await runtime.stop(container_id, 5)


async def test_only_the_task_itself_reads_its_secret_command(runtime, busybox):
    command = "stat -c '%a %U' /run/skep/command; exit 7"
    ended = await run(runtime, make_spec(busybox, command, secret_command=True))
    assert (ended.stdout, ended.exit.exit_code) == ("400 root\n", 7)


async def test_a_secret_command_has_its_grace_like_any_other(runtime, busybox):
    command = 'sh -c \'trap "sleep 0.3; echo saved; exit 0" TERM; echo up; while :; do sleep 0.1;'
    spec = make_spec(busybox, command + " done'", secret_command=True)
    container_id = await start(runtime, spec)
    output = b""
    async for stream, data, _ in runtime.logs(container_id):
        output += data if stream == "stdout" else b""
        if data == b"up\n":
            await runtime.stop(container_id, 20)
    assert output == b"up\nsaved\n"


async def test_an_attempt_may_be_created_again_after_the_agent_died_half_way(runtime, busybox):
    files = [FileSpec(path="/run/skep/hostfile", content="here\n")]
    spec = make_spec(busybox, "cat /run/skep/hostfile", files=files)
    first = await runtime.create(spec)
    assert await runtime.create(spec) == first
    await runtime.start(first)
    assert [data async for _, data, _ in runtime.logs(first)] == [b"here\n"]


async def test_a_container_without_its_files_does_not_stay(runtime, image_after):
    files = [FileSpec(path="/run/skep/hostfile", content="nowhere to put it")]
    spec = make_spec(image_after("echo a plain file > /run"), "true", files=files)
    with pytest.raises(RuntimeFailure) as failed:
        await runtime.create(spec)
    assert failed.value.code == "create_failed"
    assert await runtime.list() == []


async def test_the_command_starts_in_the_folder_that_was_asked_for(runtime, busybox):
    ended = await run(runtime, make_spec(busybox, "pwd", work_dir="/workspace/code"))
    assert ended.stdout == "/workspace/code\n"


@pytest.mark.parametrize(("network", "expected"), [("isolated", "eth0"), ("host", "lo")])
async def test_frameworks_are_given_the_interface_that_others_reach(
    cluster, busybox, network, expected
):
    node = NodeFacts(cluster, "node-1", simulated_gpus=True, interface=interface_of("127.0.0.1"))
    runtime = DockerRuntime(node)
    command = 'echo $NCCL_SOCKET_IFNAME; ip link show "$GLOO_SOCKET_IFNAME" >&2'
    try:
        ended = await run(runtime, make_spec(busybox, command, network=network))
    finally:
        await runtime.close()
    assert ended.stdout == f"{expected}\n"
    assert expected in ended.stderr + ended.stdout
    assert ended.exit.exit_code == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_a_port_that_is_taken_is_a_conflict_before_the_start(runtime, busybox, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as stranger:
        stranger.bind((address, 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        container_id = await runtime.create(make_spec(busybox, "true", network="host"))
        with pytest.raises(RuntimeFailure) as refused:
            await runtime.start(container_id, (port,))
    assert refused.value.code == "port_conflict"
    assert str(port) in refused.value.message
    await runtime.start(container_id, (port,))


ARCHIVE = packed(
    folder("src", mode=0o700),
    ("src/train.py", b"print()\n"),
    symlink("same.py", "src/train.py"),
    ("big", bytes(range(256)) * 20_000),
    *[(f"many/{number}", b"x") for number in range(300)],
)


async def create_with(runtime, image: str, archive: bytes, command: str, **fields) -> str:
    spec = make_spec(image, command, working_files=named(archive, "/workspace/code"), **fields)
    return await runtime.create(spec, io.BytesIO(archive))


async def test_working_files_are_there_when_the_command_starts(runtime, busybox):
    command = (
        "cat same.py; wc -c < big; ls many | wc -l; stat -c '%a %U' src src/train.py; "
        "stat -c %a /workspace; touch src/new"
    )
    container_id = await create_with(runtime, busybox, ARCHIVE, command, work_dir="/workspace/code")
    await runtime.start(container_id)
    output = b"".join([data async for _, data, _ in runtime.logs(container_id)]).decode()
    assert output.split("\n") == [
        "print()", "5120000", "300", "700 root", "644 root", "755", "",
    ]  # fmt: skip


async def test_a_task_that_is_not_root_may_write_where_its_working_files_are(runtime, made_image):
    command = "cd /workspace/code && touch here src/new && echo x > src/train.py && id -u"
    fields = {"work_dir": "/workspace/code"}
    container_id = await create_with(runtime, made_image("USER bee"), ARCHIVE, command, **fields)
    await runtime.start(container_id)
    assert [data async for _, data, _ in runtime.logs(container_id)] == [b"1000\n"]


@pytest.mark.parametrize("folder", ["/workspace/code", "/tmp", "/var", "/"])
async def test_a_task_that_is_not_root_owns_the_folder_that_it_starts_in(
    runtime, made_image, folder
):
    command = f"pwd; stat -c '%a %u' {folder}; touch x 2>/dev/null; echo $?"
    ended = await run(runtime, make_spec(made_image("USER bee"), command, work_dir=folder))
    expected = {"/tmp": "1777 1000\n0", "/": "755 0\n1"}.get(folder, "755 1000\n0")
    assert ended.stdout == f"{folder}\n{expected}\n"


async def test_working_files_in_a_folder_that_the_image_has(runtime, image_after):
    image = image_after(
        "mkdir -p /workspace/code; echo old > /workspace/code/old; chmod 711 /workspace"
    )
    command = "ls /workspace/code; stat -c %a /workspace"
    container_id = await create_with(runtime, image, packed(("new", b"")), command)
    await runtime.start(container_id)
    output = b"".join([data async for _, data, _ in runtime.logs(container_id)])
    assert output == b"new\nold\n711\n"


async def test_attack_30_an_archive_that_leads_out_makes_no_container(
    runtime, busybox, docker_engine
):
    many = [(f"file-{number}", b"x" * 10_000) for number in range(200)]
    for bad in (symlink("a", "/etc"), ("../out", b""), entry("a", tarfile.CHRTYPE)):
        with pytest.raises(RuntimeFailure) as refused:
            await create_with(runtime, busybox, packed(*many, bad), "true")
        assert refused.value.code == "spec_refused"
    assert await runtime.list() == []
