"""`/ws/agent/streams/{id}`: the agent dials to carry what somebody asked for."""

from __future__ import annotations

import structlog
from redis import RedisError

from skep_agent.protocol import CLOSE_UNAUTHORIZED
from skep_platform.cluster import services as cluster
from skep_platform.core.addresses import client_address
from skep_platform.gateway import frames, seats, threads
from skep_platform.gateway.pump import Pump
from skep_platform.gateway.relay import Gone, Pipe
from skep_platform.gateway.socket import (
    CLOSE_INTERNAL,
    CLOSE_NORMAL,
    Closed,
    Receive,
    Refusal,
    Scope,
    Send,
    Socket,
)

log = structlog.get_logger(__name__)

CLOSE_UNKNOWN = 4404
CLOSE_GONE = 4410
CLOSE_GOING = 1001
LOST = "lost"


async def agent_stream_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application."""
    socket = Socket(scope, receive, send)
    try:
        await socket.accept()
        await _serve(socket, scope["url_route"]["kwargs"]["stream_id"])
        await socket.close(CLOSE_NORMAL)
    except Closed:
        pass
    except Gone:
        await socket.close(CLOSE_GONE, "stream_gone")
    except Refusal as refusal:
        log.info("agent_stream_refused", code=refusal.code)
        await socket.close(refusal.close, refusal.code)
    except Exception:
        log.exception("agent_stream_failed")
        await socket.close(CLOSE_INTERNAL, "internal")


async def _serve(socket: Socket, stream_id: str) -> None:
    credential = socket.bearer()
    node = None
    if credential:
        async with seats.people.stranger(client_address(socket.scope)):
            node = await threads.credentials.run(cluster.authenticate_node, credential)
    if node is None:
        message = "The credential is missing, unknown, or its node was removed."
        raise Refusal("credential_invalid", message, CLOSE_UNAUTHORIZED)
    pipe = Pipe(stream_id, "agent", node.pk)
    async with pipe.heard():
        if not await pipe.dial():
            message = "Nobody waits for this stream of this node."
            raise Refusal("stream_unknown", message, CLOSE_UNKNOWN)
        await _relay(socket, pipe)


async def _relay(socket: Socket, pipe: Pipe) -> None:
    why = LOST
    try:
        await Pump(socket, pipe, frames.OF_AGENT).run(pipe.watch())
        why = ""
    except Closed as closed:
        why = "" if closed.code in (CLOSE_NORMAL, CLOSE_GOING) else LOST
        raise
    finally:
        try:
            await pipe.close(why)
        except (RedisError, OSError) as error:
            log.warning("stream_not_closed", error=type(error).__name__)
