"""Agents and servers one version apart: those of the release before are played from recorded
messages (`scripts/record-release`), those of this one are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_process import AgentProcess, config_for
from tests.support.gateway_agent import Joined
from tests.support.gateway_server import ThreadServer, wait_until
from tests.support.jobs_world import attempts_of, state_of, submit, tick
from tests.support.platform_factories import make_user, make_vc
from tests.support.releases import NAMES, RELEASES, Release
from websockets.asyncio.server import ServerConnection, serve

from skep_agent.accelerators.simulated import SimulatedGpus
from skep_agent.frames import LogFrame
from skep_agent.protocol import Desired, Gpu, LogAck, ReportAck, Welcome, parse_agent_message
from skep_platform.cluster.models import Node
from skep_platform.telemetry import queries as telemetry

release = pytest.mark.parametrize("release", RELEASES, ids=NAMES)


@release
@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_our_servers_run_a_job_on_an_agent_of_the_release_before(release: Release):
    said = release.agent_messages()
    hello = json.loads(said[0])
    alice = make_user("alice")
    with ThreadServer() as server:
        joined = Joined(gpus=[Gpu(**gpu) for gpu in hello["inventory"]["gpus"]])
        hello["instance_id"] = joined.node.instance_id
        with joined.connect(server.port) as agent:
            agent.send(json.dumps(hello))
            assert isinstance(agent.expect(Welcome), Welcome)
            assert agent.expect(Desired).attempts == []
            job = submit(alice, make_vc("v", quotas={"A100": 8}, members=[alice]))
            assert tick()
            [wanted] = agent.expect(Desired).attempts
            # The rest of what it recorded is about an attempt of its own server.
            recorded = next(json.loads(m)["facts"] for m in said if '"type":"report"' in str(m))
            old, epoch = recorded[0]["attempt_id"], wanted.epoch
            for message in said[1:]:
                agent.send(_about(message, old, wanted.attempt_id, epoch))
            agent.expect(ReportAck)  # the log may be acknowledged before
            acks = [message for message in agent.other if isinstance(message, LogAck)]
            ack = acks[0] if acks else agent.expect(LogAck)
            assert ack.offset == len("hello\n")
            wait_until(lambda: state_of(job) == "SUCCEEDED", "the job ends")
    [attempt] = attempts_of(job)
    assert telemetry.stream_part(attempt, "stdout", 0, 100).text == "hello\n"
    assert Node.objects.get().disk_total_mb == 20


def _about(message: str | bytes, old: str, new: str, epoch: int) -> str | bytes:
    """Ids have one length, so that they can be replaced within a binary frame, too."""
    if isinstance(message, bytes):
        return message.replace(old.encode(), new.encode())
    found = json.loads(message.replace(old, new))
    for fact in found.get("facts", ()):
        fact["epoch"] = epoch
    return json.dumps(found)


class OldServer:
    """A server of the release before: it sends what was recorded, with the numbers of its acks
    changed, has attempts that are ready run, and keeps what the agent reports."""

    def __init__(self, release: Release, command: str) -> None:
        self.says = release.server_messages()
        self.attempts: list[dict[str, Any]] = self.says["desired"]["attempts"]
        for attempt in self.attempts:
            attempt["command"] = command
        self.phases: dict[str, list[str]] = {}
        self.logs: dict[tuple[str, str], bytes] = {}  # by attempt and stream

    async def __call__(self, socket: ServerConnection) -> None:
        async for frame in socket:
            if isinstance(frame, bytes):
                await self._log(socket, LogFrame.decode(frame))
                continue
            message = parse_agent_message(frame)
            if message.type == "hello":
                for kind in ("welcome", "network_policy", "prefetches", "image_saves", "desired"):
                    await self._send(socket, kind)
            elif message.type == "heartbeat":
                await self._send(socket, "heartbeat_ack", seq=message.seq)
            elif message.type == "report":
                for fact in message.facts:
                    self.phases.setdefault(fact.attempt_id, []).append(fact.phase)
                await self._send(socket, "report_ack", seq=message.facts[-1].seq)
                await self._pass_barrier(socket)

    async def _pass_barrier(self, socket: ServerConnection) -> None:
        ids = [attempt["attempt_id"] for attempt in self.attempts]
        if all("ready" in self.phases.get(each, ()) for each in ids):
            run = [attempt | {"desired": "run"} for attempt in self.attempts]
            await self._send(socket, "desired", revision=2, attempts=run)

    async def _log(self, socket: ServerConnection, frame: LogFrame) -> None:
        stream = frame.attempt_id, frame.stream
        self.logs[stream] = self.logs.get(stream, b"")[: frame.offset] + frame.data
        about = {"attempt_id": frame.attempt_id, "stream": frame.stream}
        offset = frame.offset + len(frame.data)
        await self._send(socket, "log_ack", **about, offset=offset, end=not frame.data)

    async def _send(self, socket: ServerConnection, kind: str, **changes: Any) -> None:
        await socket.send(json.dumps(self.says[kind] | changes))


@release
async def test_our_agent_runs_tasks_to_their_end_for_a_server_of_the_release_before(
    release: Release, tmp_path: Path
):
    old = OldServer(release, "mock run_for=0.1 log_lines=3")
    hello = json.loads(release.agent_messages()[0])
    probe = SimulatedGpus(0)
    probe._gpus = [Gpu(**gpu) for gpu in hello["inventory"]["gpus"]]
    wanted = [attempt["attempt_id"] for attempt in old.attempts]
    assert wanted
    async with serve(old, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        config = config_for(tmp_path, f"http://127.0.0.1:{port}", hello["inventory"]["hostname"])
        async with AgentProcess(config, probe=probe).running() as agent:
            await _until(lambda: all("released" in old.phases.get(a, ()) for a in wanted), agent)
            output = b"".join(b"stdout line %d\n" % n for n in range(3))
            await _until(lambda: all(old.logs.get((a, "stdout")) == output for a in wanted), agent)
    for attempt in wanted:
        steps = [phase for phase in old.phases[attempt] if phase in STEPS]
        assert list(dict.fromkeys(steps)) == STEPS


STEPS = ["ready", "running", "exited", "released"]


async def _until(holds: Any, agent: AgentProcess) -> None:
    import asyncio

    async with asyncio.timeout(60):
        while not holds():
            assert agent.task is not None
            assert not agent.task.done(), agent.task
            await asyncio.sleep(0.02)
