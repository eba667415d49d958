"""The agent's side of `chaos.engine`: a runtime whose containers are in another process."""

from __future__ import annotations

import asyncio
import base64
import builtins
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from skep_agent.containers import Container, Exit, Progress, RuntimeFailure
from skep_agent.protocol import AttemptSpec, CachedImage, ContainerSample, ImageSpec
from skep_agent.runtimes.base import LogPiece
from skep_agent.runtimes.mock import MockRuntime

LIMIT = 64 * 1024 * 1024  # bytes of one answer


class EngineRuntime(MockRuntime):
    """All that has to do with containers is asked of the engine at `socket`, one connection for
    each call. What it is not asked for does nothing, as in `MockRuntime`."""

    def __init__(self, socket: Path) -> None:
        super().__init__()
        self._socket = socket

    async def pull(self, image: ImageSpec, progress: Callable[[Progress], None]) -> None:
        await self._ask("pull", image=image.model_dump())

    async def images(self) -> builtins.list[CachedImage]:
        return [CachedImage.model_validate(raw) for raw in await self._ask("images")]

    async def create(
        self,
        spec: AttemptSpec,
        archive: BinaryIO | None = None,
        created: Callable[[], None] = lambda: None,
    ) -> str:
        container_id = str(await self._ask("create", spec=spec.model_dump()))
        created()
        return container_id

    async def start(self, container_id: str, ports: Sequence[int] = ()) -> None:
        await self._ask("start", container_id=container_id)

    async def signal(self, container_id: str, signal: str) -> bool:
        return bool(await self._ask("signal", container_id=container_id, signal=signal))

    async def stop(self, container_id: str, grace_s: float) -> None:
        await self._ask("stop", container_id=container_id, grace_s=grace_s)

    async def wait(self, container_id: str) -> Exit:
        return Exit(**await self._ask("wait", container_id=container_id))

    async def logs(self, container_id: str) -> AsyncIterator[LogPiece]:
        async for answer in self._answers("logs", container_id=container_id):
            if "piece" in answer:
                stream, data = answer["piece"]
                yield LogPiece(stream, base64.b64decode(data))

    async def remove(self, container_id: str) -> None:
        await self._ask("remove", container_id=container_id)

    async def list(self) -> builtins.list[Container]:
        return [_container(raw) for raw in await self._ask("list")]

    async def sample(self, containers: dict[str, str]) -> builtins.list[ContainerSample]:
        found = await self._ask("sample", containers=containers)
        return [ContainerSample.model_validate(raw) for raw in found]

    async def _ask(self, call: str, **arguments: Any) -> Any:
        async for answer in self._answers(call, **arguments):
            return answer["value"]
        raise RuntimeFailure("engine_down", f"the engine broke off {call}")

    async def _answers(self, call: str, **arguments: Any) -> AsyncGenerator[dict[str, Any]]:
        """Yield what the engine says until it closes. Raises RuntimeFailure."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket, limit=LIMIT)
        except OSError as error:
            raise RuntimeFailure("engine_down", str(error)) from None
        try:
            writer.write(json.dumps({"call": call, "arguments": arguments}).encode() + b"\n")
            await writer.drain()
            done = False
            while line := await reader.readline():
                answer = json.loads(line)
                if "code" in answer:
                    raise RuntimeFailure(answer["code"], answer["message"])
                done |= "value" in answer
                yield answer
            if not done:
                raise RuntimeFailure("engine_down", f"the engine broke off {call}")
        except OSError as error:
            raise RuntimeFailure("engine_down", str(error)) from None
        finally:
            writer.close()


def _container(raw: dict[str, Any]) -> Container:
    exit_ = Exit(**raw["exit"]) if raw["exit"] else None
    return Container(**{**raw, "gpu_uuids": tuple(raw["gpu_uuids"]), "exit": exit_})
