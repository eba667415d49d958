"""Output from the first byte to the last, byte for byte."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.runtimes import docker_logs, local_log
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker


async def _read(runtime, container_id: str) -> dict[str, bytes]:
    output = {"stdout": bytearray(), "stderr": bytearray()}
    async for stream, data, _ in runtime.logs(container_id):
        output[stream] += data
    return {stream: bytes(data) for stream, data in output.items()}


async def test_lines_arrive_while_the_task_runs(runtime, busybox):
    script = "echo one; sleep 1000"
    container_id = await start(runtime, make_spec(busybox, script))
    logs = runtime.logs(container_id)
    assert (await asyncio.wait_for(anext(logs), 60))[:2] == ("stdout", b"one\n")
    await logs.aclose()
    await runtime.stop(container_id, 0.0)


async def test_bytes_that_are_no_text_arrive_unchanged(runtime, busybox):
    script = "printf '\\377\\376\\000\\033[31m\\n'; printf 'no end of line'"
    output = await _read(runtime, await start(runtime, make_spec(busybox, script)))
    assert output["stdout"] == b"\xff\xfe\x00\x1b[31m\nno end of line"


async def test_a_character_on_the_engines_16_kib_boundary_is_not_cut(runtime, busybox):
    script = "printf x; yes é | head -n 20000 | tr -d '\\n'; echo; echo next"
    output = await _read(runtime, await start(runtime, make_spec(busybox, script)))
    assert output["stdout"].decode() == "x" + "é" * 20000 + "\nnext\n"


@pytest.mark.parametrize("size", [16383, 16384, 16385, 32768, 50000])
async def test_the_line_after_a_long_line_begins_on_its_own(runtime, busybox, size):
    script = (
        f"head -c {size} /dev/zero | tr '\\0' a; echo; echo next;"
        f" (head -c {size} /dev/zero | tr '\\0' b; echo; echo; printf end) >&2"
    )
    output = await _read(runtime, await start(runtime, make_spec(busybox, script)))
    assert output["stdout"] == b"a" * size + b"\nnext\n"
    assert output["stderr"] == b"b" * size + b"\n\nend"


async def test_attack_31_one_huge_line_arrives_whole(runtime, busybox):
    script = "head -c 8388608 /dev/zero | tr '\\0' a; echo; echo next"
    output = await _read(runtime, await start(runtime, make_spec(busybox, script)))
    assert len(output["stdout"]) == 8 * 1024 * 1024 + len("\nnext\n")
    assert output["stdout"].strip(b"a") == b"\nnext\n"


async def test_attack_31_a_flood_of_lines_arrives_whole_and_in_order(runtime, busybox):
    script = "seq 200000; seq 1000 >&2"
    output = await _read(runtime, await start(runtime, make_spec(busybox, script, cpus=2.0)))
    assert output["stdout"] == b"".join(b"%d\n" % n for n in range(1, 200001))
    assert output["stderr"] == b"".join(b"%d\n" % n for n in range(1, 1001))


async def test_the_last_lines_before_the_end_are_never_lost(runtime, busybox):
    """A follower of the engine can miss them: many short tasks, each looked at to its last byte."""
    specs = [
        make_spec(busybox, f"seq 300; echo last {n} >&2; echo last {n}", memory_mb=16)
        for n in range(10)
    ]
    expected = b"".join(b"%d\n" % n for n in range(1, 301))
    outputs = await asyncio.gather(*(_run_and_read(runtime, spec) for spec in specs))
    for n, output in enumerate(outputs):
        assert output == {
            "stdout": expected + b"last %d\n" % n,
            "stderr": b"last %d\n" % n,
        }


async def _run_and_read(runtime, spec) -> dict[str, bytes]:
    return await _read(runtime, await start(runtime, spec))


async def test_a_follower_that_lost_the_end_reads_again(runtime, busybox, monkeypatch):
    """The engine's fault, made certain: the first answer ends whole, but too early."""
    monkeypatch.setattr(docker_logs, "_FILE", "not seen from here")
    container_id = await start(runtime, make_spec(busybox, "seq 100; seq 50 >&2"))
    await runtime.wait(container_id)
    whole, answers = docker_logs._Log._records, []

    async def early(log, more):
        answers.append(more)
        first = len(answers) == 1
        async for records in whole(log, more):
            yield records[:20] if first else records
            if first:
                return

    monkeypatch.setattr(docker_logs._Log, "_records", early)
    output = await _read(runtime, container_id)
    assert output["stdout"] == b"".join(b"%d\n" % n for n in range(1, 101))
    assert output["stderr"] == b"".join(b"%d\n" % n for n in range(1, 51))


async def _read_with_times(runtime, container_id: str) -> dict[str, tuple[bytes, list[int]]]:
    output: dict[str, tuple[bytes, list[int]]] = {"stdout": (b"", []), "stderr": (b"", [])}
    async for stream, data, times in runtime.logs(container_id):
        output[stream] = output[stream][0] + data, [*output[stream][1], *times]
    return output


async def test_the_engines_file_and_the_engine_give_the_same_bytes_and_times(
    runtime, busybox, monkeypatch
):
    script = (
        "seq 20000; head -c 40000 /dev/zero | tr '\\0' a; echo; echo; seq 99 >&2; yes 0123456789"
        " | head -c 300 | tr '\\n' x; echo; head -c 16384 /dev/zero >&2; echo >&2; printf end"
    )
    container_id = await start(runtime, make_spec(busybox, script))
    await runtime.wait(container_id)
    asked, ask = [], docker_logs._Log._records
    monkeypatch.setattr(
        docker_logs._Log, "_records", lambda log, more: asked.append(more) or ask(log, more)
    )
    of_file = await _read_with_times(runtime, container_id)
    assert asked == ["&tail=1"], "the engine sends no more than the last record"
    monkeypatch.setattr(docker_logs, "_FILE", "not seen from here")
    assert of_file == await _read_with_times(runtime, container_id)
    assert asked[1] == "&follow=1"


async def test_the_engine_goes_on_where_its_file_could_not_be_read(runtime, busybox, monkeypatch):
    container_id = await start(runtime, make_spec(busybox, "seq 100000; seq 50 >&2"))
    await runtime.wait(container_id)
    take, taken = local_log.Parser.take, []

    def broken(parser, data):
        taken.append(data)
        if len(taken) == 3:
            raise local_log.UnknownFormat("made by the test")
        return take(parser, data)

    monkeypatch.setattr(local_log.Parser, "take", broken)
    output = await _read(runtime, container_id)
    assert len(taken) == 3
    assert output["stdout"] == b"".join(b"%d\n" % n for n in range(1, 100001))
    assert output["stderr"] == b"".join(b"%d\n" % n for n in range(1, 51))


async def test_logs_can_be_read_again_and_by_several(runtime, busybox):
    container_id = await start(runtime, make_spec(busybox, "seq 50; echo e >&2"))
    outputs = await asyncio.gather(*(_read(runtime, container_id) for _ in range(3)))
    assert outputs[0] == outputs[1] == outputs[2] == await _read(runtime, container_id)
    assert outputs[0]["stderr"] == b"e\n"


async def test_a_silent_task_has_an_empty_log(runtime, busybox):
    assert (await run(runtime, make_spec(busybox, "true"))).stdout == ""


async def test_a_container_that_never_started_has_an_empty_log(runtime, busybox):
    container_id = await runtime.create(make_spec(busybox, "true"))
    assert await asyncio.wait_for(_read(runtime, container_id), 60) == {
        "stdout": b"",
        "stderr": b"",
    }


async def test_the_log_of_a_removed_container_says_so(runtime, busybox):
    container_id = await runtime.create(make_spec(busybox, "true"))
    await runtime.remove(container_id)
    with pytest.raises(RuntimeFailure) as gone:
        await _read(runtime, container_id)
    assert gone.value.code == "container_gone"


async def test_following_many_tasks_takes_no_thread_each(cluster, busybox):
    """Six logs and six waits beside two threads, which stay free for the stops."""
    runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True), threads=2)
    specs = [make_spec(busybox, "echo here; sleep 1000", memory_mb=16) for _ in range(6)]
    ids = [await start(runtime, spec) for spec in specs]
    logs = [runtime.logs(container_id) for container_id in ids]
    waiting = [asyncio.create_task(runtime.wait(container_id)) for container_id in ids]
    assert [(await anext(log)).data for log in logs] == [b"here\n"] * 6
    await asyncio.gather(*(runtime.stop(container_id, 0.0) for container_id in ids))
    assert all(exit.exit_code for exit in await asyncio.gather(*waiting))
    for log in logs:
        await log.aclose()
    await runtime.close()
