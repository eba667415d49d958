"""`Skep` and `AsyncSkep`: the same methods, one blocking, one to await.

`api_table.Api` has the methods that send one request. Written out below are those that send
several, or read a stream.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from itertools import islice
from typing import Any, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from skep_client import calls, models
from skep_client.api_table import AsyncApi, BlockingApi, NextPage
from skep_client.archives import Archive, Body, Progress
from skep_client.calls import Call
from skep_client.errors import ServerUnreachable, SkepError
from skep_client.flow import (
    RETRY_DELAYS_S,
    Outcome,
    Send,
    Step,
    checked,
    exchange,
    refusal,
    repeated,
    request_of,
)
from skep_client.live import Subscription, is_loopback
from skep_client.naming import MOST_NAMED, filters_of, is_id, next_cursor, the_one

T = TypeVar("T")
P = ParamSpec("P")
ASYNC_LOOK_S = 2.0
WAIT_LOOK_S = 5.0  # `wait` looks so often where no notification comes


class Skep(BlockingApi):
    """The client of the REST API: `Skep("https://skep.example.org", token)`. Methods raise
    SkepError. Close it, or use it in a `with` block."""

    def __init__(
        self,
        server: str,
        token: str = "",
        *,
        retry_delays_s: Sequence[float] = RETRY_DELAYS_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.server = checked(server, token)
        self.token = token
        self.retry_delays_s = retry_delays_s
        verify = transport is not None or _trusted(self.server)
        trust_env = not is_loopback(self.server)
        self._http = httpx.Client(transport=transport, trust_env=trust_env, verify=verify)

    def run(self, call: Call[T]) -> T:
        """Send any call of `skep_client.calls`."""
        request = request_of(self._http, self.server, self.token, call)
        return self._steps(exchange(call, request, self.retry_delays_s))

    def _steps(self, flow: Generator[Step, Outcome, T], *, stream: bool = False) -> T:
        step = next(flow)
        while True:
            outcome: Outcome = None
            if isinstance(step, Send):
                try:
                    outcome = self._http.send(step.request, stream=stream)
                    if outcome.is_error:
                        outcome.read()
                except httpx.TransportError as error:
                    outcome = error
            else:
                time.sleep(step.seconds)
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                return end.value

    def close(self) -> None:
        """Close the connections to the server."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def all(self, page: NextPage[T]) -> Iterator[T]:
        """Iterate over every result of every page, such as
        `client.all(lambda cursor: calls.jobs(cursor=cursor))`."""
        cursor: str | None = ""
        while cursor is not None:
            found = self.run(page(cursor))
            yield from found.results
            cursor = next_cursor(found)

    def upload(self, archive: Archive, progress: Progress | None = None) -> bool:
        """Upload an archive, and return whether its bytes had to be sent."""
        try:
            self.run(calls.archive(archive.sha256))
            return False
        except SkepError as error:
            if error.status != 404:
                raise
        self.run(calls.upload(Body(archive.path, progress)))
        return True

    def download_logs(self, job_id: str, **params: Any) -> Iterator[bytes]:
        """Yield the merged log as far as it is stored now. `params`: those of the REST API."""
        yield from self.stream(calls.download_logs(job_id, params))

    def export_audit(self, **params: Any) -> Iterator[bytes]:
        """Yield all audit entries. `params`: format (csv or jsonl), and those of `audit`."""
        yield from self.stream(calls.export_audit(params))

    def stream(self, call: Call[None]) -> Iterator[bytes]:
        """Yield the answer of a call piece by piece, such as that of `calls.export_trace`."""
        request = request_of(self._http, self.server, self.token, call)
        sending = repeated(call, request, self.retry_delays_s)
        try:
            with closing(self._steps(sending, stream=True)) as response:
                if response.is_error:
                    raise refusal(response)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise ServerUnreachable(f"The transfer broke off: {error}") from error

    def search_logs(self, job_id: str, **params: Any) -> Iterator[models.Match]:
        """Yield the lines of the merged log with a text (`q`; `regex`, `ignore_case`), in order."""
        cursor: str | None = ""
        while cursor is not None:
            found = self.run(calls.search_logs(job_id, **params, cursor=cursor))
            yield from found.matches
            cursor = found.next

    def find(self, name: str) -> models.JobSummary:
        """Return a job by its id, its name, or OWNER/NAME; of several that of the caller.

        Raises SkepError `not_found` (404), and `ambiguous` (400) where only others have several.
        """
        if is_id(name):
            return self.job(name)
        owner, _, plain = name.rpartition("/")
        found = list(islice(self._named(plain, owner), MOST_NAMED))
        if len(found) > 1:
            found = [*self._named(plain, self.me().username)] or found
        return the_one(plain, found)

    def _named(self, name: str, owner: str) -> Iterator[models.JobSummary]:
        for job in self.jobs(**filters_of(name, owner)):
            if job.name == name and owner in ("", job.owner):
                yield job

    def wait(self, job_id: str, *, timeout_s: float | None = None) -> models.Job:
        """Return the job when it has ended. Raises TimeoutError after `timeout_s` seconds."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with Subscription(self.server, self.token, "job", job_id) as changes:
            while True:
                left = calls.OUTAGE_S if end is None else max(0.0, end - time.monotonic())
                outage_s = min(left, calls.OUTAGE_S)
                try:
                    job = self.run(calls.following(calls.job(job_id), outage_s))
                except ServerUnreachable as error:
                    if end is None or left > outage_s:
                        raise
                    raise TimeoutError(f"{error} (after {timeout_s:g} s)") from error
                if job.is_finished:
                    return job
                left = WAIT_LOOK_S if end is None else min(WAIT_LOOK_S, end - time.monotonic())
                if left <= 0:
                    raise TimeoutError(f"{job.name} is {job.state} after {timeout_s:g} s")
                changes.wait(left)


class AsyncSkep(AsyncApi):
    """The same for asyncio; use it in an `async with` block."""

    def __init__(
        self,
        server: str,
        token: str = "",
        *,
        retry_delays_s: Sequence[float] = RETRY_DELAYS_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.server = checked(server, token)
        self.token = token
        self.retry_delays_s = retry_delays_s
        verify = transport is not None or _trusted(self.server)
        trust_env = not is_loopback(self.server)
        self._http = httpx.AsyncClient(transport=transport, trust_env=trust_env, verify=verify)

    async def run(self, call: Call[T]) -> T:
        """Send any call of `skep_client.calls`."""
        request = request_of(self._http, self.server, self.token, call)
        return await self._steps(exchange(call, request, self.retry_delays_s))

    async def _steps(self, flow: Generator[Step, Outcome, T], *, stream: bool = False) -> T:
        step = next(flow)
        while True:
            outcome: Outcome = None
            if isinstance(step, Send):
                try:
                    outcome = await self._http.send(step.request, stream=stream)
                    if outcome.is_error:
                        await outcome.aread()
                except httpx.TransportError as error:
                    outcome = error
            else:
                await asyncio.sleep(step.seconds)
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                return end.value

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def all(self, page: NextPage[T]) -> AsyncIterator[T]:
        """Iterate over every result of every page."""
        cursor: str | None = ""
        while cursor is not None:
            found = await self.run(page(cursor))
            for result in found.results:
                yield result
            cursor = next_cursor(found)

    async def upload(self, archive: Archive, progress: Progress | None = None) -> bool:
        """Upload an archive; return whether its bytes had to be sent."""
        try:
            await self.run(calls.archive(archive.sha256))
            return False
        except SkepError as error:
            if error.status != 404:
                raise
        await self.run(calls.upload(Body(archive.path, progress)))
        return True

    def download_logs(self, job_id: str, **params: Any) -> AsyncIterator[bytes]:
        """Yield the merged log as one transfer, piece by piece, as far as it is stored now."""
        return self.stream(calls.download_logs(job_id, params))

    def export_audit(self, **params: Any) -> AsyncIterator[bytes]:
        """Yield the audit entries of a filter as one transfer, piece by piece."""
        return self.stream(calls.export_audit(params))

    async def stream(self, call: Call[None]) -> AsyncIterator[bytes]:
        """Yield the answer of a call piece by piece."""
        request = request_of(self._http, self.server, self.token, call)
        sending = repeated(call, request, self.retry_delays_s)
        try:
            async with aclosing(await self._steps(sending, stream=True)) as response:
                if response.is_error:
                    raise refusal(response)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx.TransportError as error:
            raise ServerUnreachable(f"The transfer broke off: {error}") from error

    async def search_logs(self, job_id: str, **params: Any) -> AsyncIterator[models.Match]:
        """Yield the lines of the merged log with a text in them, in order."""
        cursor: str | None = ""
        while cursor is not None:
            found = await self.run(calls.search_logs(job_id, **params, cursor=cursor))
            for match in found.matches:
                yield match
            cursor = found.next

    async def find(self, name: str) -> models.JobSummary:
        """Return a job by its id, its name, or OWNER/NAME, as `Skep.find` does."""
        if is_id(name):
            return await self.job(name)
        owner, _, plain = name.rpartition("/")
        found = await self._named(plain, owner)
        if len(found) > 1:
            found = await self._named(plain, (await self.me()).username) or found
        return the_one(plain, found)

    async def _named(self, name: str, owner: str) -> list[models.JobSummary]:
        found: list[models.JobSummary] = []
        async for job in self.jobs(**filters_of(name, owner)):
            if job.name == name and owner in ("", job.owner):
                found.append(job)
            if len(found) == MOST_NAMED:
                break
        return found

    async def wait(self, job_id: str, *, timeout_s: float | None = None) -> models.Job:
        """Return the job when it has ended. Raises TimeoutError after `timeout_s` seconds."""
        async with asyncio.timeout(timeout_s):
            while True:
                job = await self.run(calls.following(calls.job(job_id)))
                if job.is_finished:
                    return job
                await asyncio.sleep(ASYNC_LOOK_S)


def _trusted(server: str) -> ssl.SSLContext | bool:
    """Return what the server's certificate is checked with: the authorities that httpx brings, and
    those of the machine, as for WebSockets. An organization's own are among the latter."""
    if urlsplit(server).scheme == "http":
        return False
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context
