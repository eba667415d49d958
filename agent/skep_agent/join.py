"""Joining a cluster: a one-time token against this node's own credential."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx
import typer

from skep_agent.statedir import Identity, StateDir

MOST_WAIT_S = 600  # for a server that refuses because of its limits
WAIT_S = 10  # where its answer does not say how long


class JoinFailed(Exception):
    """The server refused, or was not there; `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def join(server: str, token: str, name: str, state: StateDir) -> Identity:
    """Get a credential for the one-time `token`, and keep it in the state directory. Asks again
    after an answer 429 as its Retry-After says, at most MOST_WAIT_S seconds long, and says so on
    stderr. Raises JoinFailed."""
    server = server.rstrip("/")
    # Secrets that were made of a file end in a line end.
    body = {"token": token.strip(), "name": name, "instance_id": state.instance_id}
    waited_s = 0
    while (answer := await _ask(server, body)).status_code == httpx.codes.TOO_MANY_REQUESTS:
        wait_s = _retry_after_s(answer)
        if waited_s + wait_s > MOST_WAIT_S:
            refusal = _refusal(answer)
            message = f"{refusal} (waited {waited_s} s of at most {MOST_WAIT_S} s)"
            raise JoinFailed(refusal.code, message)
        line = f"{server} refuses joins from this address for now; trying again in {wait_s} s"
        typer.echo(f"skep-agent: {line}", err=True)
        await asyncio.sleep(wait_s)
        waited_s += wait_s
    if not answer.is_success:
        raise _refusal(answer)
    try:
        given = answer.json()
        identity = Identity(
            server=server,
            name=given["name"],
            node_id=given["node_id"],
            cluster=hashlib.sha256(server.encode()).hexdigest()[:12],
            credential=given["credential"],
            gateway_url=accepted_gateway(server, given.get("gateway_url", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _refusal(answer) from None
    state.save(identity)
    return identity


def is_open_to_others(server: str) -> bool:
    """Return whether what is sent to this URL can be read on the network: plain HTTP to another
    machine. Only the name "localhost" and loopback addresses count as this machine."""
    url = urlsplit(server)
    host = (url.hostname or "").lower()
    if url.scheme == "https" or host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


def accepted_gateway(server: str, sent: str) -> str:
    """The gateway's address as the server sent it, or "": a credential that was given over TLS is
    never sent without it."""
    url = urlsplit(sent)
    secure = url.scheme == "https"
    plain = url.scheme == "http" and urlsplit(server).scheme == "http"
    return sent.rstrip("/") if url.hostname and (secure or plain) else ""


def trusted(server: str) -> ssl.SSLContext | bool:
    """Return what the certificate of this URL is checked with: the authorities that httpx brings,
    and those of the machine, as for WebSockets. An organization's own are among the latter, and may
    change while the agent runs. Without TLS none are loaded, which takes some 10 ms."""
    if urlsplit(server).scheme == "http":
        return False
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context


async def _ask(server: str, body: dict[str, str]) -> httpx.Response:
    try:
        async with httpx.AsyncClient(timeout=30, verify=trusted(server)) as client:
            return await client.post(f"{server}/api/v1/nodes/join", json=body)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise JoinFailed("server_unreachable", f"{server} does not answer: {error}") from None


def _retry_after_s(answer: httpx.Response) -> int:
    try:
        return max(int(answer.headers["Retry-After"]), 1)
    except (KeyError, ValueError):  # not there, or a date
        return WAIT_S


def _refusal(answer: httpx.Response) -> JoinFailed:
    try:
        error = answer.json()
        return JoinFailed(error["code"], error["message"])
    except (ValueError, KeyError, TypeError):
        where = answer.headers.get("Location", "")
        said = f"{answer.status_code} and leads to {where}" if where else answer.status_code
        message = f"{answer.url} answered {said}, as Skep does not: is this its address?"
        return JoinFailed("join_refused", message)
