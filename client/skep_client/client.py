"""`Skep` and `AsyncSkep`: the same calls, one blocking, one to await."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx

from skep_client import calls, cell_calls, models
from skep_client.archives import Archive, AsyncBody, Body, Progress
from skep_client.calls import Call
from skep_client.errors import ServerUnreachable, SkepError
from skep_client.flow import RETRY_DELAYS_S, Outcome, Send, exchange, refusal
from skep_client.model import Page

T = TypeVar("T")
ASYNC_LOOK_S = 2.0
WAIT_LOOK_S = 5.0  # `wait` looks so often where no doorbell rings
# One page of results as the server names the next one, or None.
NextPage = Callable[[str], Call[Page[T]]]


class Skep:
    """`Skep("https://skep.example.org", token)`. Methods raise SkepError; see `calls` for what
    each sends. Close it, or use it in a `with` block."""

    def __init__(
        self,
        server: str,
        token: str = "",
        *,
        retry_delays_s: Sequence[float] = RETRY_DELAYS_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.server = server.rstrip("/")
        self.token = token
        self._retry_delays_s = retry_delays_s
        self._http = httpx.Client(transport=transport, trust_env=not is_loopback(self.server))

    def run(self, call: Call[T]) -> T:
        """Send any call of `skep_client.calls`."""
        request = _request(self._http, self.server, self.token, call)
        flow = exchange(call, request, self._retry_delays_s)
        step = next(flow)
        while True:
            outcome: Outcome = None
            if isinstance(step, Send):
                try:
                    outcome = self._http.send(step.request)
                except httpx.TransportError as error:
                    outcome = error
            else:
                time.sleep(step.seconds)
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                return end.value

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def all(self, page: NextPage[T]) -> Iterator[T]:
        """Every result of every page: `client.all(lambda cursor: calls.jobs(cursor=cursor))`."""
        cursor: str | None = ""
        while cursor is not None:
            found = self.run(page(cursor))
            yield from found.results
            cursor = next_cursor(found)

    def info(self) -> models.Info:
        return self.run(calls.info())

    def me(self) -> models.Me:
        return self.run(calls.me())

    def submit(self, text: str, *, client_token: str = "") -> models.Job:
        return self.run(calls.submit(text, client_token))

    def check(self, text: str) -> models.Check:
        return self.run(calls.check(text))

    def convert(self, text: str, format: str = "auto") -> models.Converted:
        return self.run(calls.convert(text, format))

    def upload(self, archive: Archive, progress: Progress | None = None) -> bool:
        """Whether its bytes had to be sent: the server keeps what it got once for 30 days."""
        try:
            self.run(calls.archive(archive.sha256))
            return False
        except SkepError as error:
            if error.status != 404:
                raise
        self.run(calls.upload(Body(archive.path, progress)))
        return True

    def jobs(self, **filters: Any) -> Iterator[models.JobSummary]:
        return self.all(lambda cursor: calls.jobs(**filters, cursor=cursor))

    def job(self, job_id: str) -> models.Job:
        return self.run(calls.job(job_id))

    def stop(self, job_id: str) -> models.Job:
        return self.run(calls.stop(job_id))

    def retry(self, job_id: str) -> models.Job:
        return self.run(calls.retry(job_id))

    def clone(self, job_id: str, name: str = "") -> models.Job:
        return self.run(calls.clone(job_id, name))

    def set_tags(self, job_id: str, tags: Sequence[str]) -> models.Job:
        return self.run(calls.set_tags(job_id, tags))

    def attempts(self, job_id: str) -> Iterator[models.JobAttempt]:
        return self.all(lambda cursor: calls.attempts(job_id, cursor=cursor))

    def use(self, job_id: str) -> models.JobUse:
        return self.run(calls.use(job_id))

    def metrics(self, job_id: str, **params: Any) -> models.JobMetrics:
        return self.run(calls.metrics(job_id, **params))

    def tasks(self, job_id: str, **filters: Any) -> Iterator[models.Task]:
        return self.all(lambda cursor: calls.tasks(job_id, **filters, cursor=cursor))

    def events(self, job_id: str) -> Iterator[models.Event]:
        return self.all(lambda cursor: calls.events(job_id, cursor=cursor))

    def logs(self, job_id: str, **params: Any) -> models.JobLogs:
        return self.run(calls.logs(job_id, **params))

    def download_logs(self, job_id: str, **params: Any) -> Iterator[bytes]:
        """The merged log as one transfer, piece by piece, as far as it is stored now. `params`:
        rank, role, stream, attempt, prefix, progress; see the REST API."""
        request = _request(self._http, self.server, self.token, calls.download_logs(job_id, params))
        try:
            response = self._http.send(request, stream=True)
            with closing(response):
                if response.is_error:
                    response.read()
                    raise refusal(response)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise ServerUnreachable(f"The transfer of the log broke off: {error}") from error

    def search_logs(self, job_id: str, **params: Any) -> Iterator[models.Match]:
        """Lines of the merged log with a text in them (`q`; `regex`, `ignore_case`), in order."""
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
        found = [j for j in self.jobs(search=plain) if j.name == plain and owner in ("", j.owner)]
        return the_one(plain, found, self.me().username if len(found) > 1 else "")

    def wait(self, job_id: str, *, timeout_s: float | None = None) -> models.Job:
        """Return the job when it has ended. Raises TimeoutError after `timeout_s` seconds; the
        job goes on then."""
        from skep_client.follow import Doorbell

        end = None if timeout_s is None else time.monotonic() + timeout_s
        with Doorbell(self, "job", job_id) as bell:
            while True:
                job = self.job(job_id)
                if job.is_finished:
                    return job
                left = WAIT_LOOK_S if end is None else min(WAIT_LOOK_S, end - time.monotonic())
                if left <= 0:
                    raise TimeoutError(f"{job.name} is {job.state} after {timeout_s:g} s")
                bell.wait(left)

    def nodes(self) -> Iterator[models.Node]:
        return self.all(lambda cursor: calls.nodes(cursor=cursor))

    def virtual_clusters(self) -> Iterator[models.VirtualCluster]:
        return self.all(lambda cursor: calls.virtual_clusters(cursor=cursor))

    def cluster(self) -> models.Cluster:
        return self.run(calls.cluster())

    def cells(self) -> models.Cells:
        return self.run(cell_calls.overview())

    def cells_of(self, vc: str, **params: Any) -> models.VcCells:
        return self.run(cell_calls.of_vc(vc, **params))

    def queue(self, vc: str, **params: Any) -> models.VcQueue:
        return self.run(cell_calls.queue(vc, **params))

    def history(self, vc: str, **params: Any) -> models.VcHistory:
        return self.run(cell_calls.history(vc, **params))

    def assignment(self) -> models.Assignment:
        return self.run(cell_calls.assignment())

    def check_assignment(self, wanted: models.Assignment) -> models.CheckedAssignment:
        return self.run(cell_calls.check_assignment(wanted))

    def set_assignment(self, wanted: models.Assignment) -> models.CheckedAssignment:
        return self.run(cell_calls.set_assignment(wanted))

    def export_hived(self) -> str:
        return self.run(cell_calls.export_hived())

    def check_hived(self, text: str, *, assign: bool = False) -> models.CheckedAssignment:
        return self.run(cell_calls.check_hived(text, assign=assign))

    def import_hived(self, text: str, *, assign: bool = False) -> models.CheckedAssignment:
        return self.run(cell_calls.import_hived(text, assign=assign))

    def node_forecast(self, node: str, action: str = "drain") -> models.NodeForecast:
        return self.run(cell_calls.node_forecast(node, action))

    def drain(self, node: str) -> models.Node:
        return self.run(cell_calls.drain(node))

    def undrain(self, node: str) -> models.Node:
        return self.run(cell_calls.undrain(node))


class AsyncSkep:
    """The same for asyncio; use it in an `async with` block."""

    def __init__(
        self,
        server: str,
        token: str = "",
        *,
        retry_delays_s: Sequence[float] = RETRY_DELAYS_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.server = server.rstrip("/")
        self.token = token
        self._retry_delays_s = retry_delays_s
        self._http = httpx.AsyncClient(transport=transport, trust_env=not is_loopback(self.server))

    async def run(self, call: Call[T]) -> T:
        request = _request(self._http, self.server, self.token, call)
        flow = exchange(call, request, self._retry_delays_s)
        step = next(flow)
        while True:
            outcome: Outcome = None
            if isinstance(step, Send):
                try:
                    outcome = await self._http.send(step.request)
                except httpx.TransportError as error:
                    outcome = error
            else:
                await asyncio.sleep(step.seconds)
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                return end.value

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def all(self, page: NextPage[T]) -> AsyncIterator[T]:
        cursor: str | None = ""
        while cursor is not None:
            found = await self.run(page(cursor))
            for result in found.results:
                yield result
            cursor = next_cursor(found)

    async def info(self) -> models.Info:
        return await self.run(calls.info())

    async def me(self) -> models.Me:
        return await self.run(calls.me())

    async def submit(self, text: str, *, client_token: str = "") -> models.Job:
        return await self.run(calls.submit(text, client_token))

    async def check(self, text: str) -> models.Check:
        return await self.run(calls.check(text))

    async def convert(self, text: str, format: str = "auto") -> models.Converted:
        return await self.run(calls.convert(text, format))

    async def upload(self, archive: Archive, progress: Progress | None = None) -> bool:
        try:
            await self.run(calls.archive(archive.sha256))
            return False
        except SkepError as error:
            if error.status != 404:
                raise
        await self.run(calls.upload(Body(archive.path, progress)))
        return True

    def jobs(self, **filters: Any) -> AsyncIterator[models.JobSummary]:
        return self.all(lambda cursor: calls.jobs(**filters, cursor=cursor))

    async def job(self, job_id: str) -> models.Job:
        return await self.run(calls.job(job_id))

    async def stop(self, job_id: str) -> models.Job:
        return await self.run(calls.stop(job_id))

    async def retry(self, job_id: str) -> models.Job:
        return await self.run(calls.retry(job_id))

    async def clone(self, job_id: str, name: str = "") -> models.Job:
        return await self.run(calls.clone(job_id, name))

    async def set_tags(self, job_id: str, tags: Sequence[str]) -> models.Job:
        return await self.run(calls.set_tags(job_id, tags))

    def attempts(self, job_id: str) -> AsyncIterator[models.JobAttempt]:
        return self.all(lambda cursor: calls.attempts(job_id, cursor=cursor))

    async def use(self, job_id: str) -> models.JobUse:
        return await self.run(calls.use(job_id))

    async def metrics(self, job_id: str, **params: Any) -> models.JobMetrics:
        return await self.run(calls.metrics(job_id, **params))

    def tasks(self, job_id: str, **filters: Any) -> AsyncIterator[models.Task]:
        return self.all(lambda cursor: calls.tasks(job_id, **filters, cursor=cursor))

    def events(self, job_id: str) -> AsyncIterator[models.Event]:
        return self.all(lambda cursor: calls.events(job_id, cursor=cursor))

    async def logs(self, job_id: str, **params: Any) -> models.JobLogs:
        return await self.run(calls.logs(job_id, **params))

    async def download_logs(self, job_id: str, **params: Any) -> AsyncIterator[bytes]:
        request = _request(self._http, self.server, self.token, calls.download_logs(job_id, params))
        try:
            response = await self._http.send(request, stream=True)
            async with aclosing(response):
                if response.is_error:
                    await response.aread()
                    raise refusal(response)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx.TransportError as error:
            raise ServerUnreachable(f"The transfer of the log broke off: {error}") from error

    async def search_logs(self, job_id: str, **params: Any) -> AsyncIterator[models.Match]:
        cursor: str | None = ""
        while cursor is not None:
            found = await self.run(calls.search_logs(job_id, **params, cursor=cursor))
            for match in found.matches:
                yield match
            cursor = found.next

    async def find(self, name: str) -> models.JobSummary:
        if is_id(name):
            return await self.job(name)
        owner, _, plain = name.rpartition("/")
        found = [j async for j in self.jobs(search=plain)]
        found = [j for j in found if j.name == plain and owner in ("", j.owner)]
        me = (await self.me()).username if len(found) > 1 else ""
        return the_one(plain, found, me)

    async def wait(self, job_id: str, *, timeout_s: float | None = None) -> models.Job:
        """Return the job when it has ended. Raises TimeoutError after `timeout_s` seconds."""
        async with asyncio.timeout(timeout_s):
            while True:
                job = await self.job(job_id)
                if job.is_finished:
                    return job
                await asyncio.sleep(ASYNC_LOOK_S)

    def nodes(self) -> AsyncIterator[models.Node]:
        return self.all(lambda cursor: calls.nodes(cursor=cursor))

    def virtual_clusters(self) -> AsyncIterator[models.VirtualCluster]:
        return self.all(lambda cursor: calls.virtual_clusters(cursor=cursor))

    async def cluster(self) -> models.Cluster:
        return await self.run(calls.cluster())

    async def cells(self) -> models.Cells:
        return await self.run(cell_calls.overview())

    async def cells_of(self, vc: str, **params: Any) -> models.VcCells:
        return await self.run(cell_calls.of_vc(vc, **params))

    async def queue(self, vc: str, **params: Any) -> models.VcQueue:
        return await self.run(cell_calls.queue(vc, **params))

    async def history(self, vc: str, **params: Any) -> models.VcHistory:
        return await self.run(cell_calls.history(vc, **params))

    async def assignment(self) -> models.Assignment:
        return await self.run(cell_calls.assignment())

    async def check_assignment(self, wanted: models.Assignment) -> models.CheckedAssignment:
        return await self.run(cell_calls.check_assignment(wanted))

    async def set_assignment(self, wanted: models.Assignment) -> models.CheckedAssignment:
        return await self.run(cell_calls.set_assignment(wanted))

    async def export_hived(self) -> str:
        return await self.run(cell_calls.export_hived())

    async def check_hived(self, text: str, *, assign: bool = False) -> models.CheckedAssignment:
        return await self.run(cell_calls.check_hived(text, assign=assign))

    async def import_hived(self, text: str, *, assign: bool = False) -> models.CheckedAssignment:
        return await self.run(cell_calls.import_hived(text, assign=assign))

    async def node_forecast(self, node: str, action: str = "drain") -> models.NodeForecast:
        return await self.run(cell_calls.node_forecast(node, action))

    async def drain(self, node: str) -> models.Node:
        return await self.run(cell_calls.drain(node))

    async def undrain(self, node: str) -> models.Node:
        return await self.run(cell_calls.undrain(node))


def the_one(name: str, found: Sequence[models.JobSummary], me: str) -> models.JobSummary:
    """Return the only job of a name, or that of user `me` among several. Raises SkepError."""
    found = [job for job in found if job.owner == me] or list(found)
    if not found:
        raise SkepError(404, "not_found", f"There is no job named {name}.")
    if len(found) > 1:
        owners = ", ".join(f"{job.owner}/{job.name}" for job in found)
        message = f"Several people have a job {name}; name one: {owners}"
        raise SkepError(400, "ambiguous", message)
    return found[0]


def is_id(text: str) -> bool:
    """Whether the text is the id of a job, and not a name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def next_cursor(page: Page[Any]) -> str | None:
    """The cursor inside the next page's address; None on the last page."""
    if page.next is None:
        return None
    return parse_qs(urlsplit(page.next).query)["cursor"][0]


def is_loopback(server: str) -> bool:
    """Whether no proxy of the environment can help to reach it."""
    return urlsplit(server).hostname in ("127.0.0.1", "::1", "localhost")


def _request(
    http: httpx.Client | httpx.AsyncClient, server: str, token: str, call: Call[Any]
) -> httpx.Request:
    headers = {"Accept": "application/json", **call.headers}
    content: Any = call.content
    if isinstance(content, Body) and isinstance(http, httpx.AsyncClient):
        content = AsyncBody(content)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return http.build_request(
        call.method,
        f"{server}{call.root}{call.path}",
        params=call.params or None,
        json=call.json,
        content=content,
        headers=headers,
        timeout=call.timeout_s,
    )
