"""A whole agent against a control plane over a real socket, with the mock runtime."""

from __future__ import annotations

import asyncio
import builtins
import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.agent_process import AgentProcess, FakeClock, config_for
from tests.support.agent_server import FakeControlPlane
from tests.support.agent_specs import spec

from skep_agent.containers import Container
from skep_agent.protocol import CLOSE_UNAUTHORIZED, CachedImage, Gpu
from skep_agent.runtimes.mock import MockRuntime
from skep_agent.shell.link import FatalClose, socket_url
from skep_agent.statedir import Identity, StateDir, StateError


def mock_lines(stream: str, count: int) -> bytes:
    return b"".join(b"%s line %d\n" % (stream.encode(), n) for n in range(count))


async def test_an_agent_registers_with_what_the_node_has(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    hello = server.node().hellos[0]
    inventory = hello.inventory
    assert (inventory.cpus, inventory.memory_mb, inventory.runtime) == (64, 65536, "mock")
    assert len({gpu.uuid for gpu in inventory.gpus}) == 8
    assert inventory.address == "127.0.0.1"
    assert set(inventory.topology) == {gpu.uuid for gpu in inventory.gpus}
    assert hello.instance_id == StateDir(agent.config.state).instance_id


async def test_a_gang_runs_from_desired_to_released_with_all_its_output(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    gpus = [gpu.uuid for gpu in server.node().hellos[0].inventory.gpus]
    gang = [
        spec(f"a{n}", gpu_uuids=[gpus[n]], command="mock run_for=0.1 log_lines=50 stderr_lines=3")
        for n in range(8)
    ]
    await server.desire(*gang)
    node = server.node()
    await server.until(lambda: all(node.complete(s.attempt_id) for s in gang))
    for attempt in gang:
        assert node.phases(attempt.attempt_id)[-3:] == ["running", "exited", "released"]
        assert node.log(attempt.attempt_id).data == mock_lines("stdout", 50)
        assert node.log(attempt.attempt_id, "stderr").data == mock_lines("stderr", 3)
    await server.until(lambda: not agent.runtime.containers)  # type: ignore[attr-defined]


async def test_use_is_sampled_while_an_attempt_runs(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    uuid = server.node().hellos[0].inventory.gpus[3].uuid
    await server.desire(spec(gpu_uuids=[uuid], command="mock run_for=forever"))

    def seen() -> bool:
        newest = server.node().samples[-1:]
        used = {g.uuid for sample in newest for g in sample.gpus if g.utilization > 0}
        named = {c.attempt_id for sample in newest for c in sample.containers}
        return used == {uuid} and named == {"a1"}

    await server.until(seen)


async def test_a_broken_gpu_is_reported_and_a_healed_one_too(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    def gpus() -> list[Gpu]:
        inventory = server.node().inventory
        return inventory.gpus if inventory else []

    faults = StateDir(agent.config.state).gpu_faults
    faults.write_text(
        json.dumps({"2": "XID 79: fallen off the bus", gpus()[5].uuid: {"lost": True}})
    )
    await server.until(lambda: len(gpus()) == 7 and not gpus()[2].healthy)
    assert gpus()[2].problem == "XID 79: fallen off the bus"
    faults.unlink()
    await server.until(lambda: len(gpus()) == 8 and gpus()[2].healthy)


async def test_a_held_attempt_says_ready_and_runs_when_it_is_let(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    await server.desire(spec(desired="hold"))
    await server.until(lambda: "ready" in server.node().phases("a1"))
    await server.desire(spec())
    await server.until(lambda: server.node().complete("a1"))
    found = server.node().phases("a1")
    assert found[found.index("ready") :] == ["ready", "running", "exited", "released"]


async def test_what_a_gpu_said_before_a_process_died_is_reported_with_its_end(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    runtime = agent.runtime
    assert isinstance(runtime, MockRuntime)
    uuid = server.node().hellos[0].inventory.gpus[3].uuid
    await server.desire(spec(gpu_uuids=[uuid], command="mock run_for=forever disk_full=1"))
    await server.until(lambda: "running" in server.node().phases("a1"))
    faults = StateDir(agent.config.state).gpu_faults
    faults.write_text(json.dumps({uuid: "XID 79: fallen off the bus"}))
    (container,) = runtime.containers.values()
    runtime.end(container.container_id, 139)
    await server.until(lambda: "exited" in server.node().phases("a1"))
    exited = next(f for f in server.node().facts if f.phase == "exited")
    assert (exited.xids, exited.disk_full) == ([79], True)


async def test_a_stop_reaches_the_container(server: FakeControlPlane, agent: AgentProcess) -> None:
    await server.desire(spec(command="mock run_for=forever"))
    await server.until(lambda: "running" in server.node().phases("a1"))
    await server.desire(spec(command="mock run_for=forever", desired="stop"))
    await server.until(lambda: server.node().complete("a1"))
    exited = next(f for f in server.node().facts if f.phase == "exited")
    assert (exited.exit_code, exited.signal) == (143, 15)


@pytest.mark.parametrize(
    ("command", "code"),
    [("mock start_error=gpu_unavailable", "gpu_unavailable"), ("mock create_error=x", "x")],
)
async def test_failures_have_codes_and_an_empty_log_with_an_end(
    server: FakeControlPlane, agent: AgentProcess, command: str, code: str
) -> None:
    await server.desire(spec(command=command))
    await server.until(lambda: server.node().complete("a1"))
    failed = next(f for f in server.node().facts if f.phase == "failed")
    assert failed.error_code == code


async def test_a_pull_reports_its_progress_and_its_failure(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    image = {"reference": "x?pull_seconds=3&pull_error=image_not_found"}
    await server.desire(spec("a1", image=image), spec("a2", image=image))
    await server.until(lambda: server.node().complete("a1") and server.node().complete("a2"))
    facts = [f for f in server.node().facts if f.attempt_id == "a1" and f.pull_percent]
    assert len({f.pull_percent for f in facts}) >= 2
    assert all(0 < f.pull_bytes < f.pull_total_bytes for f in facts)
    failed = [f.error_code for f in server.node().facts if f.phase == "failed"]
    assert failed == ["image_not_found"] * 2


async def test_no_byte_is_lost_or_doubled_over_broken_connections(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    """Some 20,000 lines a second on one stream of each attempt."""
    await server.desire(
        spec("a1", command="mock run_for=1000 log_lines=20000000"),
        spec("a2", command="mock run_for=1000 stderr_lines=20000000"),
    )
    node, runtime = server.node(), agent.runtime
    assert isinstance(runtime, MockRuntime)
    logs = [node.log("a1"), node.log("a2", "stderr")]
    for _ in range(6):
        sizes = [len(log.data) for log in logs]
        await server.until(
            lambda sizes=sizes: all(
                len(log.data) > size for log, size in zip(logs, sizes, strict=True)
            )
        )
        await server.drop()
    containers = sorted(runtime.containers.values(), key=lambda c: c.spec.attempt_id)
    for container in containers:
        runtime.end(container.container_id, 0)
    await server.until(lambda: node.complete("a1") and node.complete("a2"))
    assert len(node.hellos) > 6
    for log, stream, container in zip(logs, ("stdout", "stderr"), containers, strict=True):
        assert container.lines is not None
        assert log.data == mock_lines(stream, container.lines[stream])  # type: ignore[index]


async def test_a_killed_agent_takes_its_containers_up_again(
    server: FakeControlPlane, tmp_path: Path
) -> None:
    agent = AgentProcess(config_for(tmp_path / "n1", server.url))
    command = "mock run_for=1000 log_lines=2000000"
    node = server.node()
    async with agent.running():
        await server.desire(spec(command=command))
        await server.until(lambda: len(node.log("a1").data) > 100)
    runtime = agent.runtime
    assert isinstance(runtime, MockRuntime)
    (container,) = runtime.containers.values()
    async with agent.running():
        taken_up = len(node.log("a1").data)
        await server.until(lambda: len(node.log("a1").data) > taken_up)
        runtime.end(container.container_id, 5)
        await server.until(lambda: node.complete("a1"))
    assert container.lines is not None
    assert node.log("a1").data == mock_lines("stdout", container.lines["stdout"])
    assert [f.exit_code for f in node.facts if f.phase == "exited"] == [5]
    seqs = [f.seq for f in node.facts]
    assert seqs == sorted(set(seqs))


async def test_what_a_log_may_not_show_is_covered_also_by_the_next_agent(
    server: FakeControlPlane, tmp_path: Path
) -> None:
    agent = AgentProcess(config_for(tmp_path / "n1", server.url))
    node, masks = server.node(), tmp_path / "n1" / "masks"
    secret = "line 1"
    async with agent.running():
        command = "mock run_for=1000 log_lines=2000000"
        secrets = {"secret_env": {"TOKEN": secret}, "secret_command": True, "masks": [secret]}
        await server.desire(spec(command=f"{command} {secret}", **secrets))
        await server.until(lambda: len(node.log("a1").data) > 100)
        others = [path for path in (tmp_path / "n1").iterdir() if path.is_file()]
        assert all(secret not in path.read_text() for path in others)
        (kept,) = masks.iterdir()
        assert kept.stat().st_mode & 0o777 == 0o600
        assert masks.stat().st_mode & 0o777 == 0o700
    runtime = agent.runtime
    assert isinstance(runtime, MockRuntime)
    (container,) = runtime.containers.values()
    (masks / "of-a-life-long-ago").write_text("[]")
    taken_up = len(node.log("a1").data)
    # The next agent ships before it receives the attempt again.
    node.specs.clear()
    async with agent.running():
        await server.until(lambda: len(node.log("a1").data) > taken_up)
        await server.until(lambda: node.complete("a1"))
        await server.until(lambda: not list(masks.iterdir()))
    assert container.lines is not None
    whole = mock_lines("stdout", container.lines["stdout"])
    assert secret.encode() in whole
    assert node.log("a1").data == whole.replace(secret.encode(), b"******")


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "forgotten by the server"])
async def test_finding_c2_an_agent_that_lost_its_state_ships_no_log_before_it_knows_the_secrets(
    server: FakeControlPlane, tmp_path: Path, listed: bool
) -> None:
    agent = AgentProcess(config_for(tmp_path / "n1", server.url))
    node, secret = server.node(), "line 1"
    async with agent.running():
        command = "mock run_for=1000 log_lines=2000000"
        await server.desire(spec(command=command, masks=[secret]))
        await server.until(lambda: len(node.log("a1").data) > 100)
    runtime = agent.runtime
    assert isinstance(runtime, MockRuntime)
    (container,) = runtime.containers.values()
    for lost in [tmp_path / "n1" / "journal.jsonl", *(tmp_path / "n1" / "masks").iterdir()]:
        lost.unlink()
    taken_up = len(node.log("a1").data)
    if not listed:
        node.specs.clear()
    async with agent.running():
        if listed:
            await server.until(lambda: len(node.log("a1").data) > taken_up)
            runtime.end(container.container_id, 0)
        await server.until(lambda: node.complete("a1"))
    assert container.lines is not None
    whole = mock_lines("stdout", container.lines["stdout"]).replace(secret.encode(), b"******")
    assert node.log("a1").data == whole if listed else whole.startswith(node.log("a1").data)
    assert secret.encode() not in node.log("a1").data
    assert node.phases("a1")[-3:] == ["running", "exited", "released"], "it was not run again"


async def test_an_exit_while_the_agent_was_dead_is_reported_with_the_whole_log(
    server: FakeControlPlane, tmp_path: Path
) -> None:
    agent = AgentProcess(config_for(tmp_path / "n1", server.url))
    node = server.node()
    async with agent.running():
        await server.desire(spec(command="mock run_for=1000 log_lines=2000000"))
        await server.until(lambda: len(node.log("a1").data) > 100)
    runtime = agent.runtime
    assert isinstance(runtime, MockRuntime)
    (container,) = runtime.containers.values()
    runtime.end(container.container_id, 0)
    assert container.lines is not None
    async with agent.running():
        await server.until(lambda: node.complete("a1"))
    assert node.log("a1").data == mock_lines("stdout", container.lines["stdout"])


async def test_facts_are_sent_again_until_they_are_acknowledged(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    await server.drop()
    agent_runtime = agent.runtime
    assert isinstance(agent_runtime, MockRuntime)
    await server.desire(spec(command="mock run_for=0.05"))
    await server.until(lambda: "running" in server.node().phases("a1"))
    await server.drop()
    await server.until(lambda: server.node().complete("a1"))


async def test_a_refused_second_connection_keeps_trying_until_it_is_accepted(
    server: FakeControlPlane, agent: AgentProcess, tmp_path: Path
) -> None:
    server.refuse_duplicates = True
    twin = AgentProcess(config_for(tmp_path / "copy", server.url))
    async with twin.running():
        refusals = server.node("refused").hellos
        await server.until(lambda: len(refusals) >= 2)
        assert len(server.node().hellos) == 1
        await agent.kill()
        await server.until(lambda: len(server.node().hellos) == 2)
        instances = [hello.instance_id for hello in server.node().hellos]
        assert instances[0] != instances[1]


async def test_an_agent_that_is_turned_away_ends(server: FakeControlPlane, tmp_path: Path) -> None:
    agent = AgentProcess(config_for(tmp_path / "n1", server.url, name="wrong"))
    with pytest.raises(FatalClose) as caught:
        await asyncio.wait_for(agent.start(), 60)
    assert caught.value.code == CLOSE_UNAUTHORIZED


async def test_a_second_agent_on_one_state_directory_is_refused(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    with pytest.raises(StateError, match="another agent"):
        await AgentProcess(agent.config).start()


GARBAGE: list[str | bytes] = [
    "",
    "{",
    "[]",
    "null",
    '{"type": 7}',
    '{"type": "from the future", "x": 1}',
    '{"type": "desired", "revision": "x", "attempts": 3}',
    '{"type": "log_ack", "attempt_id": "unknown", "stream": "stdout", "offset": 99}',
    '{"type": "heartbeat_ack", "seq": 99999}',
    '{"type": "report_ack", "seq": 99999}',
    "[" * 100_000,
    b"\x00\x01\x02",
    b"",
]


async def test_garbage_from_the_server_is_ignored(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    socket = server.node().socket
    assert socket is not None
    for frame in GARBAGE:
        await socket.send(frame)
    await server.desire(spec())
    await server.until(lambda: server.node().complete("a1"))
    assert len(server.node().hellos) == 1


async def test_a_silent_server_is_left_for_a_new_connection(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    server.answer_heartbeats = False
    server.lease_s = 1.0
    await server.drop()
    await server.until(lambda: len(server.node().hellos) >= 4)


async def test_a_node_cut_off_stops_its_containers_when_its_lease_is_over(
    server: FakeControlPlane, tmp_path: Path
) -> None:
    clock = FakeClock()
    agent = AgentProcess(config_for(tmp_path / "n1", server.url), clock=clock)
    runtime = agent.runtime
    assert isinstance(runtime, MockRuntime)
    async with agent.running():
        await server.desire(spec(command="mock run_for=forever"))
        await server.until(lambda: "running" in server.node().phases("a1"))
        container = next(iter(runtime.containers.values()))
        agent.reconfigure()
        server.answer_heartbeats = False
        clock.advance(server.lease_s - 1)
        await asyncio.sleep(0)
        assert container.status == "running"
        clock.advance(2)
        assert (await container.ended).exit_code == 143
        server.answer_heartbeats = True
        await server.until(lambda: server.node().complete("a1"))
        failed = next(f for f in server.node().facts if f.phase == "failed")
        assert failed.error_code == "node_lost"


async def test_a_node_turned_away_still_fences_itself(
    server: FakeControlPlane, tmp_path: Path
) -> None:
    clock = FakeClock()
    config = config_for(tmp_path / "n1", server.url)
    agent = AgentProcess(config, clock=clock)
    runtime = agent.runtime
    assert isinstance(runtime, MockRuntime)
    async with agent.running():
        await server.desire(spec(command="mock run_for=forever"))
        await server.until(lambda: "running" in server.node().phases("a1"))
    state = StateDir(config.state)
    state.save(Identity(server.url, "n1", "id", "test", "secret-wrong"))
    task = agent.start()
    await server.until(lambda: server.node("refused").hellos)
    container = next(iter(runtime.containers.values()))
    assert container.status == "running"
    while not task.done():
        clock.advance(1)
        await asyncio.sleep(0.001)
    assert isinstance(task.exception(), FatalClose)
    assert container.status == "exited"


@pytest.mark.parametrize(
    ("server_url", "expected"),
    [
        ("http://127.0.0.1:8080", "ws://127.0.0.1:8080/ws/agent"),
        ("https://skep.example.org/", "wss://skep.example.org/ws/agent"),
        ("https://example.org/skep", "wss://example.org/skep/ws/agent"),
    ],
)
def test_the_socket_is_found_from_the_web_address(server_url: str, expected: str) -> None:
    assert socket_url(server_url) == expected


async def test_a_preempted_attempt_saves_its_work_before_it_ends(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    asked = spec(
        command="mock run_for=forever on_checkpoint=exit",
        checkpoint_signal="SIGUSR1",
        checkpoint_grace_s=600.0,
    )
    await server.desire(asked)
    await server.until(lambda: "running" in server.node().phases("a1"))
    stop = {"desired": "stop", "stop_cause": "preempted"}
    await server.desire(asked.model_copy(update=stop))
    await server.until(lambda: server.node().complete("a1"))
    exited = next(f for f in server.node().facts if f.phase == "exited")
    assert exited.exit_code == 0


async def test_a_disk_that_is_full_fails_the_task_and_not_the_agent(
    server: FakeControlPlane, agent: AgentProcess, tmp_path: Path
) -> None:
    (tmp_path / "n1" / "masks" / "a1.new").symlink_to("/dev/full")
    await server.desire(spec(command="mock run_for=forever"))
    await server.until(lambda: "failed" in server.node().phases("a1"))
    (failed,) = [fact for fact in server.node().facts if fact.phase == "failed"]
    assert (failed.error_code, failed.disk_full) == ("disk_full", True)
    assert agent.task is not None
    assert not agent.task.done()


class TroubledRuntime(MockRuntime):
    """Fails once at each look around, in ways that no runtime should."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: list[str] = []

    def _fail(self, what: str, error: Exception) -> None:
        if what not in self.failed:
            self.failed.append(what)
            raise error

    async def list(self) -> builtins.list[Container]:
        if "started" in self.failed:
            self._fail("list", OSError(errno.EMFILE, "Too many open files"))
        return await super().list()

    async def images(self) -> builtins.list[CachedImage]:
        self._fail("images", KeyError("RepoTags"))
        return await super().images()

    async def remove_leftovers(self) -> None:
        self._fail("leftovers", OSError(errno.EIO, "Input/output error"))

    async def clean_images(self) -> None:
        self._fail("clean", ValueError("no JSON"))


async def test_looks_that_fail_end_no_agent(server: FakeControlPlane, tmp_path: Path) -> None:
    config = replace(config_for(tmp_path / "n1", server.url), scratch_interval_s=0.05)
    runtime = TroubledRuntime()
    async with AgentProcess(config, runtime=runtime).running() as agent:
        await server.until(lambda: server.node().socket)
        runtime.failed.append("started")
        async with asyncio.timeout(60):
            while len(runtime.failed) < 5:  # noqa: ASYNC110 - no one says that it is
                await asyncio.sleep(0.01)
        await server.desire(spec())
        await server.until(lambda: server.node().complete("a1"))
        assert agent.task is not None
        assert not agent.task.done()
        assert len(server.node().hellos) == 1
