"""`Skep` and `AsyncSkep`: the same methods, one blocking, one to await.

`Api` is the table of the methods that send one request; `calls` says what each of them sends.
Written out below are those that send several, or read a stream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, closing
from functools import wraps
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

import httpx

from skep_client import calls, models
from skep_client.archives import Archive, Body, Progress
from skep_client.calls import Call
from skep_client.errors import ServerUnreachable, SkepError
from skep_client.flow import RETRY_DELAYS_S, Outcome, Send, exchange, refusal, request_of
from skep_client.live import Subscription, is_loopback
from skep_client.model import Page
from skep_client.naming import is_id, next_cursor, the_one

T = TypeVar("T")
P = ParamSpec("P")
ASYNC_LOOK_S = 2.0
WAIT_LOOK_S = 5.0  # `wait` looks so often where no notification comes
# One page of results as the server names the next one, or None.
NextPage = Callable[[str], Call[Page[T]]]


class Method(Generic[P, T]):
    """A call as a method: `Skep` returns the answer, `AsyncSkep` an awaitable of it."""

    def __init__(self, call: Callable[P, Call[T]]) -> None:
        self.call = call
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, client: Skep, owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncSkep, owner: type[Any]) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, client: Any, owner: type[Any]) -> Any:
        if client is None:
            return self

        @wraps(self.call)
        def send(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.run(self.call(*args, **kwargs))

        return send


class Pages(Generic[P, T]):
    """A call that answers page by page as a method: an iterator, or asynchronous iterator, over the
    results of all pages."""

    def __init__(self, call: Callable[P, Call[Page[T]]]) -> None:
        self.call = call
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, client: Skep, owner: type[Any]) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncSkep, owner: type[Any]) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, client: Any, owner: type[Any]) -> Any:
        if client is None:
            return self
        call: Callable[..., Call[Page[T]]] = self.call

        @wraps(call)
        def iterate(*args: Any, **kwargs: Any) -> Any:
            return client.all(lambda cursor: call(*args, **kwargs, cursor=cursor))

        return iterate


class Api:
    """The methods of both clients that send one request each, or the pages of one."""

    info = Method(calls.info)
    tokens = Method(calls.tokens)
    all_tokens = Pages(calls.all_tokens)
    revoke_token = Method(calls.revoke_token)
    ssh_keys = Method(calls.ssh_keys)
    add_ssh_key = Method(calls.add_ssh_key)
    remove_ssh_key = Method(calls.remove_ssh_key)
    service_accounts = Pages(calls.service_accounts)
    create_service_account = Method(calls.create_service_account)
    update_service_account = Method(calls.update_service_account)
    delete_service_account = Method(calls.delete_service_account)
    service_account_tokens = Method(calls.service_account_tokens)
    create_service_account_token = Method(calls.create_service_account_token)
    delete_service_account_token = Method(calls.delete_service_account_token)
    delete_token = Method(calls.delete_token)
    me = Method(calls.me)
    submit = Method(calls.submit)
    logout = Method(calls.logout)
    check = Method(calls.check)
    jobs = Pages(calls.jobs)
    job = Method(calls.job)
    convert = Method(calls.convert)
    retry = Method(calls.retry)
    clone = Method(calls.clone)
    set_tags = Method(calls.set_tags)
    submit_jobs = Method(calls.submit_jobs)
    sweep = Method(calls.sweep)
    stop_jobs = Method(calls.stop_jobs)
    tag_jobs = Method(calls.tag_jobs)
    set_visibility = Method(calls.set_visibility)
    job_shares = Method(calls.job_shares)
    share_job = Method(calls.share_job)
    unshare_job = Method(calls.unshare_job)
    set_idle_exemption = Method(calls.set_idle_exemption)
    set_priority = Method(calls.set_priority)
    end_retries = Method(calls.end_retries)
    run_opportunistically = Method(calls.run_opportunistically)
    move = Method(calls.move)
    run_again = Method(calls.run_again)
    templates = Pages(calls.templates)
    template = Method(calls.template)
    create_template = Method(calls.create_template)
    update_template = Method(calls.update_template)
    delete_template = Method(calls.delete_template)
    star_template = Method(calls.star_template)
    unstar_template = Method(calls.unstar_template)
    attempts = Pages(calls.attempts)
    use = Method(calls.use)
    metrics = Method(calls.metrics)
    user_metrics = Method(calls.user_metrics)
    compare_jobs = Method(calls.compare_jobs)
    stop = Method(calls.stop)
    tasks = Pages(calls.tasks)
    events = Pages(calls.events)
    logs = Method(calls.logs)
    nodes = Pages(calls.nodes)
    cordon = Method(calls.cordon)
    uncordon = Method(calls.uncordon)
    remove_node = Method(calls.remove_node)
    create_join_token = Method(calls.create_join_token)
    join_tokens = Pages(calls.join_tokens)
    revoke_join_token = Method(calls.revoke_join_token)
    declare_lost = Method(calls.declare_lost)
    virtual_clusters = Pages(calls.virtual_clusters)
    create_virtual_cluster = Method(calls.create_virtual_cluster)
    policies = Method(calls.policies)
    choose_policy = Method(calls.choose_policy)
    limits = Method(calls.limits)
    set_limit = Method(calls.set_limit)
    reset_limit = Method(calls.reset_limit)
    set_quotas = Method(calls.set_quotas)
    set_member = Method(calls.set_member)
    remove_member = Method(calls.remove_member)
    members = Pages(calls.members)
    announcements = Pages(calls.announcements)
    announce = Method(calls.announce)
    delete_announcement = Method(calls.delete_announcement)
    dismiss_announcement = Method(calls.dismiss_announcement)
    notifications = Pages(calls.notifications)
    mark_read = Method(calls.mark_read)
    notification_preferences = Method(calls.notification_preferences)
    set_notification_preferences = Method(calls.set_notification_preferences)
    send_test_notification = Method(calls.send_test_notification)
    notification_delivery = Method(calls.notification_delivery)
    notification_deliveries = Pages(calls.notification_deliveries)
    webhooks = Pages(calls.webhooks)
    create_webhook = Method(calls.create_webhook)
    update_webhook = Method(calls.update_webhook)
    new_webhook_secret = Method(calls.new_webhook_secret)
    delete_webhook = Method(calls.delete_webhook)
    audit = Pages(calls.audit)
    simulated_cluster = Method(calls.simulated_cluster)
    simulations = Pages(calls.simulations)
    simulation = Method(calls.simulation)
    create_simulation = Method(calls.create_simulation)
    stop_simulation = Method(calls.stop_simulation)
    images = Pages(calls.images)
    image = Method(calls.image)
    create_image = Method(calls.create_image)
    update_image = Method(calls.update_image)
    inspect_image = Method(calls.inspect_image)
    delete_image = Method(calls.delete_image)
    image_nodes = Pages(calls.image_nodes)
    node_images = Pages(calls.node_images)
    save_image = Method(calls.save_image)
    image_saves = Pages(calls.image_saves)
    cancel_image_save = Method(calls.cancel_image_save)
    saved_images = Pages(calls.saved_images)
    prefetch_image = Method(calls.prefetch_image)
    prefetches = Pages(calls.prefetches)
    prefetch_nodes = Pages(calls.prefetch_nodes)
    cancel_prefetch = Method(calls.cancel_prefetch)
    check_image_rules = Method(calls.check_image_rules)
    image_rules = Method(calls.image_rules)
    set_image_rules = Method(calls.set_image_rules)
    registry_credentials = Pages(calls.registry_credentials)
    set_registry_credential = Method(calls.set_registry_credential)
    delete_registry_credential = Method(calls.delete_registry_credential)
    apps = Pages(calls.apps)
    job_apps = Pages(calls.job_apps)
    app = Method(calls.app)
    create_app = Method(calls.create_app)
    attach_tensorboard = Method(calls.attach_tensorboard)
    share_app = Method(calls.share_app)
    storages = Pages(calls.storages)
    users = Pages(calls.users)
    import_users = Method(calls.import_users)
    groups = Pages(calls.groups)
    create_group = Method(calls.create_group)
    delete_group = Method(calls.delete_group)
    group_members = Pages(calls.group_members)
    add_group_member = Method(calls.add_group_member)
    remove_group_member = Method(calls.remove_group_member)
    group_roles = Pages(calls.group_roles)
    set_group_role = Method(calls.set_group_role)
    remove_group_role = Method(calls.remove_group_role)
    storage = Method(calls.storage)
    create_storage = Method(calls.create_storage)
    update_storage = Method(calls.update_storage)
    delete_storage = Method(calls.delete_storage)
    grant_storage = Method(calls.grant_storage)
    revoke_storage = Method(calls.revoke_storage)
    grant_storage_to_group = Method(calls.grant_storage_to_group)
    revoke_storage_from_group = Method(calls.revoke_storage_from_group)
    datasets = Pages(calls.datasets)
    create_dataset = Method(calls.create_dataset)
    update_dataset = Method(calls.update_dataset)
    delete_dataset = Method(calls.delete_dataset)
    storage_files = Method(calls.storage_files)
    storage_usage = Method(calls.storage_usage)
    remove_storage_file = Method(calls.remove_storage_file)
    read_storage_file = Method(calls.read_storage_file)
    storage_upload = Method(calls.storage_upload)
    write_storage_file = Method(calls.write_storage_file)
    usage = Pages(calls.usage)
    export_usage = Method(calls.export_usage)
    report = Method(calls.report)
    export_report = Method(calls.export_report)
    budget = Method(calls.budget)
    set_budget = Method(calls.set_budget)
    remove_budget = Method(calls.remove_budget)
    cluster = Method(calls.cluster)
    cells = Method(calls.cells)
    physical_cells = Method(calls.physical_cells)
    assignment = Method(calls.assignment)
    check_assignment = Method(calls.check_assignment)
    set_assignment = Method(calls.set_assignment)
    export_hived = Method(calls.export_hived)
    check_hived = Method(calls.check_hived)
    import_hived = Method(calls.import_hived)
    delete_hived = Method(calls.delete_hived)
    cells_of = Method(calls.cells_of)
    queue = Method(calls.queue)
    history = Method(calls.history)
    node_forecast = Method(calls.node_forecast)
    drain = Method(calls.drain)
    undrain = Method(calls.undrain)


class Skep(Api):
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
        self.server = server.rstrip("/")
        self.token = token
        self._retry_delays_s = retry_delays_s
        self._http = httpx.Client(transport=transport, trust_env=not is_loopback(self.server))

    def run(self, call: Call[T]) -> T:
        """Send any call of `skep_client.calls`."""
        request = request_of(self._http, self.server, self.token, call)
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
        try:
            response = self._http.send(request, stream=True)
            with closing(response):
                if response.is_error:
                    response.read()
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
        found = [j for j in self.jobs(search=plain) if j.name == plain and owner in ("", j.owner)]
        return the_one(plain, found, self.me().username if len(found) > 1 else "")

    def wait(self, job_id: str, *, timeout_s: float | None = None) -> models.Job:
        """Return the job when it has ended. Raises TimeoutError after `timeout_s` seconds."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with Subscription(self.server, self.token, "job", job_id) as changes:
            while True:
                job = self.job(job_id)
                if job.is_finished:
                    return job
                left = WAIT_LOOK_S if end is None else min(WAIT_LOOK_S, end - time.monotonic())
                if left <= 0:
                    raise TimeoutError(f"{job.name} is {job.state} after {timeout_s:g} s")
                changes.wait(left)


class AsyncSkep(Api):
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
        """Send any call of `skep_client.calls`."""
        request = request_of(self._http, self.server, self.token, call)
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
        try:
            response = await self._http.send(request, stream=True)
            async with aclosing(response):
                if response.is_error:
                    await response.aread()
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
