"""The Docker engine: questions through the Docker SDK, streams over the same socket.

What is question and answer goes through `docker.APIClient` on a bounded pool of threads. What
would hold a thread for long (followed logs, events, attached processes, a pull's progress, stats
of every container) is asynchronous. Any transport trouble is RuntimeFailure "engine_down"; a
refusal of the engine is an EngineError, which the caller turns into the failure of what it was
doing.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import httpx

from skep_agent.containers import RuntimeFailure

if TYPE_CHECKING:  # 6 MiB and 0.2 s, which an agent without an engine does not need
    from docker import APIClient

DEFAULT_HOST = "unix:///var/run/docker.sock"
# The newest API this code was written for; an older engine's own version is used where it is less.
NEWEST_API = (1, 44)
# Under load an engine can take long to create or start; past this it does not answer at all.
ANSWER_TIMEOUT_S = 120.0
# More than the agent's own limits on creations and looks together (shell/operations.py, PARALLEL),
# so that a stop does not wait behind them.
THREADS = 24

T = TypeVar("T")


class EngineError(RuntimeFailure):
    """The engine refused a call; "engine_down" for whoever does not know better."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__("engine_down", message)
        self.status = status

    def failure(self, code: str) -> RuntimeFailure:
        """Return it as a failure of the operation at hand, unless the message says a better
        code."""
        if "no space left on device" in self.message:
            code = "disk_full"
        return RuntimeFailure(code, self.message)


class AnswerTooLong(EngineError):
    """The engine answers more than was to be read."""


@dataclass(frozen=True, slots=True)
class EngineVersion:
    version: str
    api: str  # "1.41"
    init: bool  # docker-init is installed
    runc: str = ""  # with the distribution's revision, such as "1.1.5+ds1-1+deb12u1"


@dataclass(frozen=True, slots=True)
class EngineHost:
    """Where the engine listens, from DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH."""

    url: str  # "unix:///var/run/docker.sock", "tcp://10.0.0.5:2376"
    certificates: str = ""  # folder with ca.pem, cert.pem and key.pem; "": no TLS

    @property
    def socket_path(self) -> str:
        """Return the path of a unix socket, "" for TCP."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else ""

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port of a TCP engine."""
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or (2376 if self.certificates else 2375)

    @property
    def base_url(self) -> str:
        """Return the base URL of HTTP requests."""
        if self.socket_path:
            return "http://docker"
        host, port = self.address
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.certificates else 'http'}://{host}:{port}"

    def tls_context(self) -> ssl.SSLContext | None:
        """Return what the streams are encrypted with; None without TLS."""
        if not self.certificates:
            return None
        context = ssl.create_default_context(cafile=f"{self.certificates}/ca.pem")
        context.load_cert_chain(f"{self.certificates}/cert.pem", f"{self.certificates}/key.pem")
        return context


def is_alive(found: dict[str, Any]) -> bool:
    """Return whether a container that was inspected can still do something."""
    return found["State"]["Status"] in ("running", "paused", "restarting")


def start_failure(error: EngineError) -> RuntimeFailure:
    """Return the failure of a container that the engine did not start."""
    if error.status == 404:
        return error.failure("container_gone")
    gpu = "nvidia" in error.message or "device driver" in error.message
    return error.failure("gpu_unavailable" if gpu else "start_failed")


def engine_host(url: str = "") -> EngineHost:
    """Return where to find the engine: at `url` (or the path of a socket), else where DOCKER_HOST
    says, else at the usual socket."""
    if url:
        return EngineHost(f"unix://{url}" if url.startswith("/") else url)
    url = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    verify = os.environ.get("DOCKER_TLS_VERIFY", "")
    certificates = os.environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")
    return EngineHost(url, certificates if verify and not url.startswith("unix:") else "")


class Engine:
    """One engine. `timeout_s` is the longest silence of the engine in an answer, and the longest
    wait for a free thread."""

    def __init__(
        self, url: str = "", *, threads: int = THREADS, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self.host = engine_host(url)
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="docker")
        self._free = asyncio.Semaphore(threads)
        self._pool_size = threads
        self._lock = threading.Lock()  # of the two that follow
        self._api: APIClient | None = None
        self._version: EngineVersion | None = None
        self._tls = self.host.tls_context()
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                uds=self.host.socket_path or None,
                verify=self._tls or True,
                limits=httpx.Limits(max_connections=None),
            ),
            base_url=self.host.base_url,
            timeout=timeout_s,
        )

    # --- questions, through the SDK

    async def call(self, question: Callable[[APIClient], T], *, repeat: bool = True) -> T:
        """Run `question` on a thread with the SDK's client, and return its result. It is asked
        once more on a fresh connection when the engine was restarted meanwhile, unless `repeat` is
        false. Raises EngineError, or RuntimeFailure "engine_down"."""
        return await self._in_thread(lambda: self._ask(question, repeat=repeat))

    async def version(self) -> EngineVersion:
        """Return what the engine is; asked once for each life of it."""
        while (version := self._version) is None:
            await self.call(lambda _: None)  # by then it may have been restarted again
        return version

    async def path_stat(self, container_id: str, path: str) -> dict[str, Any] | None:
        """Return name, size, mode (Go's os.FileMode) and link target of a path in a container, or
        None when there is nothing."""
        try:
            return await self.call(lambda api: _path_stat(api, container_id, path))
        except EngineError as error:
            if error.status == 404:
                return None
            raise

    async def upload(self, container_id: str, path: str, content: bytes | Iterator[bytes]) -> None:
        """Unpack a tar archive in a container's folder. Content that comes in pieces is sent once,
        and an error of whoever makes it is raised as it is."""
        if isinstance(content, bytes):
            await self.call(lambda api: api.put_archive(container_id, path, content))
            return
        pieces = _Pieces(content)
        try:
            # The SDK hands a generator on to requests, which sends it piece by piece.
            await self.call(
                lambda api: api.put_archive(container_id, path, iter(pieces)),
                repeat=False,
            )
        except RuntimeFailure:
            if pieces.error is not None:
                raise pieces.error from None
            raise

    # --- streams, asynchronous

    async def path(self, path: str) -> str:
        """Return the path with the version of the API that both sides speak."""
        return f"/v{(await self.version()).api}{path}"

    async def connect(self, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection of its own for a stream that is spoken directly. Raises OSError."""
        if path := self.host.socket_path:
            return await asyncio.open_unix_connection(path, limit=limit)
        host, port = self.host.address
        return await asyncio.open_connection(host, port, limit=limit, ssl=self._tls)

    async def stats(self, container_id: str) -> dict[str, Any]:
        """Return one reading of what a container uses."""
        path = await self.path(f"/containers/{container_id}/stats")
        params = {"stream": 0, "one-shot": 1}
        with self._transport_errors():
            try:
                response = await self._http.get(path, params=params)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # A kept connection to an engine that was restarted since.
                response = await self._http.get(path, params=params)
        if response.is_error:
            raise _error(response)
        return response.json()

    async def read(self, path: str, most: int) -> bytes:
        """Return an answer of at most so many bytes. Raises EngineError, and AnswerTooLong for
        a longer one."""
        request = self._http.build_request("GET", await self.path(path))
        answer = bytearray()
        with self._transport_errors():
            response = await self._http.send(request, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    raise _error(response)
                async for piece in response.aiter_bytes():
                    answer += piece
                    if len(answer) > most:
                        raise AnswerTooLong(500, f"The engine answers over {most} bytes.")
            finally:
                await response.aclose()
        return bytes(answer)

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
            params=params,
            headers=headers,
            timeout=httpx.Timeout(self._timeout_s, read=None),
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
        """Close all connections; calls under way end on their own."""
        await self._http.aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._disconnect()

    # --- on the event loop

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Wait for a free thread no longer than for an answer: behind an engine that hangs nothing
        may pile up."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._free.acquire()
        except TimeoutError:
            raise self._down(f"all {self._pool_size} connections wait for an answer") from None
        loop = asyncio.get_running_loop()
        try:
            future = self._threads.submit(work)
        except BaseException:
            self._free.release()
            raise

        def release(_: Future[T]) -> None:
            # Not before the thread is free, also where the answer is not waited for any more.
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._free.release)

        future.add_done_callback(release)
        return await asyncio.wrap_future(future)

    # --- on a thread

    def _ask(self, question: Callable[[APIClient], T], *, repeat: bool) -> T:
        """Call the SDK, and convert its errors into ours."""
        from docker.errors import APIError, DockerException
        from requests.exceptions import ConnectionError, RequestException, Timeout

        try:
            try:
                return question(self._connected())
            except ConnectionError as error:
                if not repeat or isinstance(error, Timeout):
                    raise
                self._disconnect()
                return question(self._connected())
        except APIError as error:
            raise EngineError(error.status_code or 500, _message(error)) from None
        except (RequestException, DockerException) as error:
            self._disconnect()
            raise self._down(f"{type(error).__name__}: {error}") from None
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # The SDK reads an error without a message, or half an object, so.
            raise self._down(f"not by an answer of Docker's: {error!r}") from None

    def _connected(self) -> APIClient:
        """Return the client for the version of the API that both sides speak."""
        with self._lock:
            if self._api is None:
                api = self._client(NEWEST_API)
                answer = api.version(api_version=False)
                newest = min(NEWEST_API, _parse_version(answer["ApiVersion"]))
                if newest != NEWEST_API:
                    api.close()
                    api = self._client(newest)
                self._version = _engine_version(answer, newest)
                self._api = api
            return self._api

    def _client(self, version: tuple[int, int]) -> APIClient:
        from docker import APIClient
        from docker.tls import TLSConfig

        host, tls = self.host, None
        if folder := host.certificates:
            pair = (f"{folder}/cert.pem", f"{folder}/key.pem")
            tls = TLSConfig(client_cert=pair, ca_cert=f"{folder}/ca.pem", verify=True)
        api = APIClient(
            host.url,
            version="{}.{}".format(*version),
            timeout=self._timeout_s,  # type: ignore[arg-type]
            tls=tls or False,
            max_pool_size=self._pool_size,
        )
        api.trust_env = False  # neither proxies nor ~/.netrc
        return api

    def _disconnect(self) -> None:
        """Another connection, and perhaps another version, comes with the next question."""
        with self._lock:
            api, self._api, self._version = self._api, None, None
        if api is not None:
            api.close()

    # --- errors

    def _down(self, problem: str) -> RuntimeFailure:
        where = self.host.socket_path or self.host.url
        return RuntimeFailure(
            "engine_down", f"The Docker engine does not answer at {where} ({problem})."
        )

    @contextmanager
    def _transport_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            self._disconnect()
            raise self._down(f"{type(error).__name__}: {error}") from error


class _Pieces:
    """An archive made on the way, and the error that ended it: requests would take an OSError of
    its maker for one of the connection."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._pieces
        except Exception as error:
            self.error = error
            raise


def _path_stat(api: APIClient, container_id: str, path: str) -> dict[str, Any]:
    """The SDK has no method for the HEAD of an archive, only for the whole of it."""
    from docker.errors import create_api_error_from_http_exception
    from docker.utils import decode_json_header
    from requests.exceptions import HTTPError

    response = api.head(
        f"{api.base_url}/v{api.api_version}/containers/{container_id}/archive",
        params={"path": path},
        timeout=api.timeout,
    )
    try:
        response.raise_for_status()
    except HTTPError as error:
        create_api_error_from_http_exception(error)
    return decode_json_header(response.headers["X-Docker-Container-Path-Stat"])


def _engine_version(answer: dict[str, Any], api: tuple[int, int]) -> EngineVersion:
    parts = {part.get("Name"): part for part in answer.get("Components") or []}
    runc = parts.get("runc") or {}
    commit = (runc.get("Details") or {}).get("GitCommit") or ""
    version = runc.get("Version") or ""
    # Where a distribution builds it, the place of the commit has its package's full version.
    full = commit if version and commit.startswith(version) else version
    return EngineVersion(answer["Version"], "{}.{}".format(*api), "docker-init" in parts, full)


async def _objects(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.strip():
            yield json.loads(line)


def _message(error: Any) -> str:
    text = error.explanation or str(error)
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _error(response: httpx.Response) -> EngineError:
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text[:500]
    return EngineError(response.status_code, message)


def _parse_version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
