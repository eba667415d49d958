"""`/ws/live`: notifications for pages. It never carries data: a client that gets one reads by
REST."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import AsyncExitStack
from functools import partial
from uuid import UUID

import structlog

from skep_platform.accounts.models import User
from skep_platform.core import notifications
from skep_platform.core.serving import client_address
from skep_platform.gateway import concurrency
from skep_platform.gateway.callers import Credential, origin_allowed, user_group
from skep_platform.gateway.concurrency import LatestValue, retry_while_unavailable
from skep_platform.gateway.listener import OnNotification, listener
from skep_platform.gateway.socket import (
    CLOSE_INTERNAL,
    CLOSE_MALFORMED,
    CLOSE_UNAUTHORIZED,
    Closed,
    Receive,
    Refusal,
    Scope,
    Send,
    Socket,
    first_to_end,
    people_limits,
)
from skep_platform.jobs import queries as jobs

log = structlog.get_logger(__name__)

MAX_SUBSCRIPTIONS = 100
MAX_FRAME = 4096  # characters
PAUSE_S = 0.2  # between two notifications of a topic
RECHECK_S = 30.0
OF_JOB = frozenset({"job", "job-logs"})
OF_ALL = frozenset({"jobs", "cluster"})
OF_USER = frozenset({"notifications"})  # each user's own

Topic = tuple[str, str]  # name, and the job's id or ""


async def live_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a page (an ASGI application)."""
    socket = Socket(scope, receive, send)
    if not origin_allowed(socket):
        await send({"type": "websocket.close"})  # before accept: HTTP 403
        return
    try:
        await socket.accept()
        await _serve(socket)
    except Closed:
        pass
    except Refusal as refusal:
        await _refuse(socket, refusal)
    except Exception:
        log.exception("live_connection_failed")
        message = "The server failed; connect again."
        await _refuse(socket, Refusal("internal", message, CLOSE_INTERNAL))


async def _serve(socket: Socket) -> None:
    credential, address = Credential.of(socket), client_address(socket.scope)
    async with people_limits.authenticating(address):
        user = await concurrency.credentials.run(credential.user)
    if user is None:
        raise _not_logged_in()
    with people_limits.connected(address, user.pk):
        await LiveSession(socket, credential, user).run()


class LiveSession:
    """One open socket. What is not sent yet is a set of topics: a peer that does not read costs
    no memory, and gets one notification for all that it missed."""

    def __init__(self, socket: Socket, credential: Credential, user: User) -> None:
        self._socket = socket
        self._credential = credential
        self._user = user
        self._topics: dict[Topic, OnNotification] = {}
        self._changed: dict[Topic, None] = {}
        self._something = asyncio.Event()
        self._rights: LatestValue[None] = LatestValue()

    async def run(self) -> None:
        ends = (self._credential.group(), user_group(self._user.pk))
        async with AsyncExitStack() as stack:
            for group in ends:
                subscription = listener().subscribed(group, lambda _: self._rights.put(None))
                await stack.enter_async_context(subscription)
            stack.push_async_callback(self._leave_all)
            await first_to_end(self._read(), self._send_changes(), self._recheck())

    async def _read(self) -> None:
        while True:
            frame = await self._socket.next()
            if not isinstance(frame, str) or len(frame) > MAX_FRAME:
                raise Refusal("message_invalid", "Short text messages, please.", CLOSE_MALFORMED)
            command, topic = _parse(frame)
            if command == "subscribe":
                await self._subscribe(topic)
            elif command == "unsubscribe":
                await self._leave(topic)
            else:
                message = 'Send {"subscribe": topic, "id": "..."} or {"unsubscribe": ...}.'
                await self._error(topic, "message_invalid", message)

    async def _subscribe(self, topic: Topic) -> None:
        name, subject = topic
        if name not in OF_JOB | OF_ALL | OF_USER or (name not in OF_JOB and subject):
            await self._error(topic, "topic_unknown", "There is no such topic.")
        elif topic not in self._topics and len(self._topics) >= MAX_SUBSCRIPTIONS:
            message = f"At most {MAX_SUBSCRIPTIONS} subscriptions for each connection."
            await self._error(topic, "too_many_subscriptions", message)
        elif name in OF_JOB and not await self._visible({subject}):
            await self._error(topic, "not_found", "There is no such job.")
        else:
            await self._join(topic)
            await self._send(type="subscribed", topic=name, id=subject)
            self._mark_changed(topic)  # for what changed since the peer last read

    async def _join(self, topic: Topic) -> None:
        if topic in self._topics:
            return
        notify: OnNotification = partial(self._mark_changed, topic)
        self._topics[topic] = notify
        await listener().join(self._group(topic), notify)

    async def _leave(self, topic: Topic) -> None:
        self._changed.pop(topic, None)
        if notify := self._topics.pop(topic, None):
            await listener().leave(self._group(topic), notify)

    def _group(self, topic: Topic) -> str:
        """Return the channel group of a topic. That of a user is made from who is logged in, so
        that no peer can name another user's."""
        name, subject = topic
        return notifications.topic_group(name, self._user.pk if name in OF_USER else subject)

    async def _leave_all(self) -> None:
        for topic in list(self._topics):
            await self._leave(topic)

    def _mark_changed(self, topic: Topic, _: notifications.Message | None = None) -> None:
        self._changed[topic] = None
        self._something.set()

    async def _send_changes(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            changed, self._changed = self._changed, {}
            for name, subject in changed:
                await self._send(type="changed", topic=name, id=subject)
            await asyncio.sleep(PAUSE_S)

    async def _recheck(self) -> None:
        """Check the credential and the topics every RECHECK_S seconds, and at once when something
        happened to the credential or the user."""
        while True:
            try:
                async with asyncio.timeout(RECHECK_S):
                    await self._rights.take()
            except TimeoutError:
                pass
            user = await retry_while_unavailable(concurrency.control, self._credential.user)
            if user is None or user.pk != self._user.pk:
                raise _not_logged_in()
            self._user = user
            await self._drop_invisible()

    async def _drop_invisible(self) -> None:
        of_jobs = [topic for topic in self._topics if topic[0] in OF_JOB]
        visible = await self._visible({subject for _, subject in of_jobs})
        for topic in of_jobs:
            if topic[1] not in visible:
                await self._leave(topic)
                await self._error(topic, "not_found", "There is no such job.")

    async def _visible(self, job_ids: Collection[str]) -> set[str]:
        return await retry_while_unavailable(concurrency.control, visible_jobs, self._user, job_ids)

    async def _error(self, topic: Topic, code: str, message: str) -> None:
        name, subject = topic
        await self._send(type="error", topic=name, id=subject, code=code, message=message)

    async def _send(self, **message: str) -> None:
        await self._socket.send(json.dumps(message))


def visible_jobs(user: User, job_ids: Collection[str]) -> set[str]:
    """Those of the jobs that the user may see."""
    known = {uuid: text for text in job_ids if (uuid := _uuid(text))}
    if not known:
        return set()
    found = jobs.visible_to(user).filter(pk__in=known).values_list("pk", flat=True)
    return {known[uuid] for uuid in found}


def _uuid(text: str) -> UUID | None:
    """Only as we write it, so that one job is one topic."""
    try:
        uuid = UUID(text)
    except ValueError:
        return None
    return uuid if str(uuid) == text else None


def _parse(frame: str) -> tuple[str, Topic]:
    """("subscribe" or "unsubscribe", topic), or ("", nothing)."""
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):
        return "", ("", "")
    if isinstance(message, dict):
        for command in ("subscribe", "unsubscribe"):
            name, subject = message.get(command), message.get("id", "")
            if isinstance(name, str) and isinstance(subject, str):
                return command, (name, subject)
    return "", ("", "")


def _not_logged_in() -> Refusal:
    return Refusal("not_authenticated", "Log in (again).", CLOSE_UNAUTHORIZED)


async def _refuse(socket: Socket, refusal: Refusal) -> None:
    try:
        error = {"type": "error", "topic": "", "id": "", "code": refusal.code}
        await socket.send(json.dumps(error | {"message": refusal.message}))
    except Closed:
        return
    await socket.close(refusal.close, refusal.code)
