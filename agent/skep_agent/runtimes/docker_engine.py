"""The Docker engine's HTTP API over its unix socket, asynchronous.

Not the Docker SDK: that blocks one thread for every wait, log and slow stop, and a node has many
of each at the same time. Any transport trouble is RuntimeFailure "engine_down"; a refusal of the
engine is an EngineError, which the caller turns into the failure of what it was doing.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from skep_agent.runtimes.base import RuntimeFailure

DEFAULT_SOCKET = "/var/run/docker.sock"
# The newest API this code was written for; an older engine's own version is used where it is less.
NEWEST_API = (1, 44)
# Under load an engine can take long to create or start; past this it does not answer at all.
ANSWER_TIMEOUT_S = 120.0


class EngineError(RuntimeFailure):
    """The engine refused a call; "engine_down" for whoever does not know better."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__("engine_down", message)
        self.status = status

    def failure(self, code: str) -> RuntimeFailure:
        """As a failure of the operation at hand, unless the message tells a better code."""
        if "no space left on device" in self.message:
            code = "disk_full"
        return RuntimeFailure(code, self.message)


@dataclass(frozen=True, slots=True)
class EngineVersion:
    version: str
    api: str  # "1.41"
    init: bool  # docker-init is installed


def default_socket() -> str:
    """Path of the engine's socket, from DOCKER_HOST where that names one."""
    host = os.environ.get("DOCKER_HOST", "")
    return host.removeprefix("unix://") if host.startswith("unix://") else DEFAULT_SOCKET


class Engine:
    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path
        self._version: EngineVersion | None = None
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                uds=socket_path, limits=httpx.Limits(max_connections=None)
            ),
            base_url="http://docker",
            timeout=ANSWER_TIMEOUT_S,
        )

    async def version(self) -> EngineVersion:
        """Read once for each life of the engine."""
        if self._version is None:
            answer = (await self._send("GET", "/version")).json()
            newest = min(NEWEST_API, _parse_version(answer["ApiVersion"]))
            parts = {part.get("Name") for part in answer.get("Components") or []}
            self._version = EngineVersion(
                answer["Version"], "{}.{}".format(*newest), "docker-init" in parts
            )
        return self._version

    async def path(self, path: str) -> str:
        """The path with the version of the API that both sides speak."""
        return f"/v{(await self.version()).api}{path}"

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return (await self._call("GET", path, params=params)).json()

    async def post(
        self,
        path: str,
        body: object = None,
        params: Mapping[str, Any] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Any:
        """The answer's JSON, or None where it has no body."""
        response = await self._call("POST", path, body=body, params=params, timeout_s=timeout_s)
        return response.json() if response.content else None

    async def headers(self, path: str, params: Mapping[str, Any]) -> Mapping[str, str] | None:
        """Of what the engine has there, or None."""
        try:
            return (await self._call("HEAD", path, params=params)).headers
        except EngineError as error:
            if error.status == 404:
                return None
            raise

    async def upload(
        self, path: str, params: Mapping[str, Any], content: bytes | AsyncIterable[bytes]
    ) -> None:
        """Send a tar archive. Content that comes in pieces is sent once; an error of who makes it
        is raised as it is."""
        with self._transport_errors():
            response = await self._http.put(
                await self.path(path),
                params=encode(params),
                content=content,
                headers={"Content-Type": "application/x-tar"},
            )
        if response.is_error:
            raise _error(response)

    async def download(self, path: str, params: Mapping[str, Any], limit: int) -> bytes | None:
        """At most `limit` bytes; None where there is nothing, or more."""
        content = bytearray()
        with self._transport_errors():
            async with self._http.stream(
                "GET", await self.path(path), params=encode(params)
            ) as response:
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > limit:
                        return None
        return None if response.is_error else bytes(content)

    async def delete(self, path: str, params: Mapping[str, Any] | None = None) -> None:
        await self._call("DELETE", path, params=params)

    @asynccontextmanager
    async def lines(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """An endless or long answer of one JSON object per line; entered when it has begun."""
        request = self._http.build_request(
            method,
            await self.path(path),
            params=encode(params),
            headers=headers,
            timeout=httpx.Timeout(ANSWER_TIMEOUT_S, read=None),
        )
        with self._transport_errors():
            response = await self._http.send(request, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    raise _error(response)
                yield _objects(response)
            finally:
                await response.aclose()

    async def close(self) -> None:
        await self._http.aclose()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, Any] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> httpx.Response:
        return await self._send(
            method, await self.path(path), json=body, params=encode(params or {}), timeout=timeout_s
        )

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        with self._transport_errors():
            try:
                response = await self._http.request(method, path, **options)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # A kept connection to an engine that was restarted since. Every call that this
                # agent makes may be repeated.
                response = await self._http.request(method, path, **options)
        if response.is_error:
            raise _error(response)
        return response

    @contextmanager
    def _transport_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            self._version = None  # another version may come back
            raise RuntimeFailure(
                "engine_down",
                f"The Docker engine does not answer at {self.socket_path}"
                f" ({type(error).__name__}: {error}).",
            ) from error


async def _objects(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.strip():
            yield json.loads(line)


def encode(params: Mapping[str, Any]) -> dict[str, Any]:
    """Query parameters as the engine wants them: filters as JSON, truth as 1 or 0."""
    return {
        name: json.dumps(value)
        if isinstance(value, dict)
        else int(value)
        if isinstance(value, bool)
        else value
        for name, value in params.items()
    }


def quoted(name: str) -> str:
    """A name as one or more path segments: an image's slashes stay."""
    return quote(name, safe="/:@")


def _error(response: httpx.Response) -> EngineError:
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text[:500]
    return EngineError(response.status_code, message)


def _parse_version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
