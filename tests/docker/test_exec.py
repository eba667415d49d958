"""Processes beside a task's own, on a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.support.docker_tasks import make_spec, start

from skep_agent.containers import RuntimeFailure
from skep_agent.frames import Channel
from skep_agent.runtimes import docker_exec
from skep_agent.runtimes.base import Command, Process
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker

Begin = Callable[..., Awaitable[Process]]


@pytest.fixture
async def task(runtime: DockerRuntime, busybox: str) -> AsyncIterator[str]:
    """A container that runs, with a working directory and a secret."""
    spec = make_spec(busybox, "sleep 600", work_dir="/tmp", secret_env={"TOKEN": "abc"})
    container_id = await start(runtime, spec)
    yield container_id
    await runtime.stop(container_id, 0)


@pytest.fixture
async def begin(runtime: DockerRuntime, task: str) -> AsyncIterator[Begin]:
    begun: list[Process] = []

    async def begin(*argv: str, **more) -> Process:
        begun.append(await runtime.exec(task, Command(argv, **more)))
        return begun[-1]

    yield begin
    for process in begun:
        await process.close()


async def all_of(process: Process) -> dict[Channel, bytes]:
    said = {Channel.OUTPUT: b"", Channel.ERROR: b""}
    async with asyncio.timeout(60):
        async for channel, data in process.output():
            said[channel] += data
    return said


async def said(process: Process, text: bytes) -> bytes:
    """What it said until it said this."""
    seen = b""
    async with asyncio.timeout(60):
        async for _, data in process.output():
            seen += data
            if text in seen:
                return seen
    raise AssertionError(f"it ended: {seen!r}")


async def test_a_command_has_two_outputs_and_an_exit_code(begin: Begin) -> None:
    process = await begin("sh", "-c", "echo out; echo err >&2; exit 7")
    assert await all_of(process) == {Channel.OUTPUT: b"out\n", Channel.ERROR: b"err\n"}
    assert await process.exit_code() == 7


async def test_arguments_arrive_as_they_are(begin: Begin) -> None:
    words = ("printf", "%s|", "a b", "$HOME", "'\"", "", "-n", "ü\n")
    said = await all_of(await begin(*words))
    assert said[Channel.OUTPUT].decode() == "".join(f"{word}|" for word in words[2:])


async def test_input_of_any_bytes_passes_and_its_end(begin: Begin) -> None:
    process = await begin("cat")
    sent = bytes(range(256)) * 8192

    async def write() -> None:
        for at in range(0, len(sent), 65536):
            await process.write(sent[at : at + 65536])
        await process.end_input()

    writing = asyncio.create_task(write())
    assert (await all_of(process))[Channel.OUTPUT] == sent
    await writing
    assert await process.exit_code() == 0


async def test_without_a_command_there_is_a_shell_in_a_terminal(begin: Begin) -> None:
    process = await begin(tty=True, rows=31, columns=77)
    await process.write(b"busybox stty size; tty_is=$(test -t 0 && echo yes); echo =$tty_is=\n")
    seen = await said(process, b"=yes=")
    assert b"31 77" in seen
    await process.resize(20, 50)
    await process.write(b"busybox stty size; echo $TERM\n")
    # It prompts when it reads again, and only then an end of the input means something to it.
    assert b"20 50" in await said(process, b"xterm-256color\r\n/tmp # ")
    await process.end_input()
    await all_of(process)
    assert await process.exit_code() == 0


async def test_input_that_comes_at_once_is_not_lost(begin: Begin) -> None:
    process = await begin(tty=True)
    await process.write(b"echo $((6 * 7)); exit 3\n")
    await said(process, b"42")
    await all_of(process)
    assert await process.exit_code() == 3


async def test_it_has_the_tasks_folder_secrets_and_rights_and_never_more(
    begin: Begin, runtime: DockerRuntime
) -> None:
    look = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/{}/status"
    command = f"pwd; echo $TOKEN; {look.format('self')}; echo; {look.format('1')}"
    output = (await all_of(await begin("sh", "-c", command)))[Channel.OUTPUT].decode()
    mine, tasks = output.split("\n\n")
    assert mine.splitlines()[:2] == ["/tmp", "abc"]
    assert mine.splitlines()[2:] == tasks.splitlines()
    assert "NoNewPrivs:\t1" in mine
    # Its seccomp filter too: 2 is "filtered".
    assert "Seccomp:\t2" in mine


async def test_it_is_the_user_of_the_image(runtime: DockerRuntime, made_image) -> None:
    container_id = await start(runtime, make_spec(made_image("USER bee"), "sleep 600"))
    process = await runtime.exec(container_id, Command(("id", "-u")))
    assert (await all_of(process))[Channel.OUTPUT] == b"1000\n"
    await process.close()
    await runtime.stop(container_id, 0)


@pytest.mark.parametrize("tty", [True, False])
async def test_a_lost_client_ends_all_that_it_began(
    begin: Begin, runtime: DockerRuntime, task: str, tty: bool
) -> None:
    """Also what holds out against the loss of its terminal."""
    script = "trap : HUP TERM; for n in 1 2; do sleep ${n}111 & done; n=3; sleep ${n}111; :"
    process = await begin("sh", "-c", script, tty=tty)

    async def until(*numbers: str) -> None:
        """So many of the sleeping processes are there, besides the task's own."""
        async with asyncio.timeout(60):
            while True:
                seen = (await all_of(await begin("ps")))[Channel.OUTPUT].decode()
                assert "sleep 600" in seen
                if [number for number in "123" if f"sleep {number}111" in seen] == list(numbers):
                    return

    await until("1", "2", "3")
    await process.close()
    await until()


async def test_a_process_that_ended_is_not_looked_for_again(begin: Begin, task: str) -> None:
    process = await begin("true")
    await all_of(process)
    await process.exit_code()
    await process.close()
    await process.write(b"to no one")
    await process.end_input()


async def test_a_command_that_is_not_there_says_so(begin: Begin) -> None:
    process = await begin("no-such-command")
    assert b"not found" in (await all_of(process))[Channel.ERROR]
    assert await process.exit_code() == 127


async def test_a_container_that_does_not_run_is_refused(runtime: DockerRuntime, busybox) -> None:
    container_id = await runtime.create(make_spec(busybox, "true"))
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.exec(container_id, Command())
    assert refused.value.code == "exec_failed"


async def test_a_reader_that_does_not_read_makes_the_process_wait(begin: Begin) -> None:
    command = "i=0; while true; do head -c 65536 /dev/zero; i=$((i+1)); echo $i > /tmp/n; done"
    process = await begin("sh", "-c", command)

    async def count() -> int:
        seen = (await all_of(await begin("sh", "-c", "cat /tmp/n")))[Channel.OUTPUT]
        return int(seen or b"0")  # it may be just being written

    seen = [0]
    async with asyncio.timeout(120):
        while not seen[-1] or len(seen) < 4 or len(set(seen[-4:])) > 1:  # until it stands still
            seen.append(await count())
            await asyncio.sleep(0.5)
    before = seen[-1]
    assert before * 65536 < 16 * 1024 * 1024
    read = 0
    async for _, data in process.output():
        read += len(data)
        if read > 2 * before * 65536:
            break
    async with asyncio.timeout(60):
        while await count() <= before:  # noqa: ASYNC110 it goes on, and gives no notice
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(("network", "own"), [("isolated", True), ("job", True), ("host", False)])
async def test_a_port_of_a_task_is_reached_at_its_address(
    runtime: DockerRuntime, busybox: str, network: str, own: bool
) -> None:
    command = "echo hello | nc -l -p 20077; sleep 600"
    container_id = await start(runtime, make_spec(busybox, command, network=network))
    address = await runtime.address(container_id)
    assert (address is not None) == own
    async with asyncio.timeout(60):
        while True:
            try:
                reader, writer = await asyncio.open_connection(address or "127.0.0.1", 20077)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
        assert await reader.readline() == b"hello\n"
    writer.close()
    await runtime.stop(container_id, 0)


HOSTILE_SHELLS = {
    "endless output without a line's end": "busybox yes | busybox tr -d '\\n'",
    "endless errors": "busybox yes | busybox tr '\\n' x >&2",
    "both": "busybox yes | busybox tr '\\n' x >&2 & busybox yes | busybox tr '\\n' x",
    "nothing at all": "busybox sleep 600",
}


@pytest.mark.parametrize("tty", [True, False])
@pytest.mark.parametrize("shell", HOSTILE_SHELLS.values(), ids=HOSTILE_SHELLS)
async def test_finding_s6_a_hostile_shell_is_refused_and_not_kept_in_memory(
    runtime: DockerRuntime,
    busybox: str,
    monkeypatch: pytest.MonkeyPatch,
    shell: str,
    tty: bool,
) -> None:
    """The task replaces its own /bin/sh before someone asks for a shell."""
    # Those that write are refused for that, however late a busy machine lets them.
    monkeypatch.setattr(docker_exec, "BEGIN_S", 3.0 if "sleep" in shell else 30.0)
    script = f"#!/bin/busybox sh\n{shell}\n"
    command = (
        'cd /bin; printf %s "$SHELL_SCRIPT" > new; busybox chmod 755 new; busybox mv -f new sh; '
        "busybox sleep 600"
    )
    container_id = await start(runtime, make_spec(busybox, command, env={"SHELL_SCRIPT": script}))
    probe = Command(("true",), tty=tty)
    async with asyncio.timeout(60):
        while True:
            try:
                process = await runtime.exec(container_id, probe)
            except RuntimeFailure as failure:
                refusal = failure
                break
            await process.close()  # the shell was not replaced yet
            await asyncio.sleep(0.05)
    assert refusal.code == "exec_failed"
    assert ("did not begin" in refusal.message) == ("sleep" in shell)
    await runtime.stop(container_id, 0)
