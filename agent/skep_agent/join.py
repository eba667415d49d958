"""Joining a cluster: a one-time token against this node's own credential."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

import httpx

from skep_agent.statedir import Identity, StateDir


class JoinFailed(Exception):
    """The server refused, or was not there; `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def join(server: str, token: str, name: str, state: StateDir) -> Identity:
    """Trade `token` for a credential and keep it in the state directory. Raises JoinFailed."""
    server = server.rstrip("/")
    body = {"token": token, "name": name, "instance_id": state.instance_id}
    try:
        async with httpx.AsyncClient(timeout=30) as client:
            answer = await client.post(f"{server}/api/v1/nodes/join", json=body)
    except httpx.HTTPError as error:
        raise JoinFailed("server_unreachable", f"{server} does not answer: {error}") from None
    if answer.is_error:
        raise _refusal(answer)
    given = answer.json()
    identity = Identity(
        server=server,
        name=given["name"],
        node_id=given["node_id"],
        cluster=hashlib.sha256(server.encode()).hexdigest()[:12],
        credential=given["credential"],
        gateway_url=accepted_gateway(server, given.get("gateway_url", "")),
    )
    state.save(identity)
    return identity


def accepted_gateway(server: str, told: str) -> str:
    """The gateway's address as the server told it, or "": a credential that was given over TLS is
    never sent without it."""
    url = urlsplit(told)
    secure = url.scheme == "https"
    plain = url.scheme == "http" and urlsplit(server).scheme == "http"
    return told.rstrip("/") if url.hostname and (secure or plain) else ""


def _refusal(answer: httpx.Response) -> JoinFailed:
    try:
        error = answer.json()
        return JoinFailed(error["code"], error["message"])
    except (ValueError, KeyError, TypeError):
        return JoinFailed("join_refused", f"the server answered {answer.status_code}")
