"""One request of a webhook: signed, to an address that was checked, bounded in time and size.

No redirect is followed, no proxy is used, and of the answer nothing but the status is kept: a user
who chose the address learns nothing from it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import httpx

from skep_platform import __version__
from skep_platform.core.errors import SkepError
from skep_platform.notifications import addresses

TIMEOUT_S = 10.0  # of the whole request
MAX_ANSWER = 64 * 1024  # bytes that are read before the connection is closed
MAX_ADDRESSES = 3  # of a name that are tried


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a request: "v1=" and the HMAC-SHA256, in hexadecimal, of the
    timestamp, a full stop and the body."""
    signed = str(timestamp).encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def encode(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


async def post(
    url: str, secret: str, payload: Mapping[str, Any], *, delivery: str, event: str, timestamp: int
) -> str:
    """Send a message to a webhook. Return why it failed, as a sentence; "" when it was accepted,
    which is any status of 2xx. Never raises for what the other side does."""
    body = encode(payload)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Skep/{__version__}",
        "Skep-Event": event,
        "Skep-Delivery": delivery,
        "Skep-Timestamp": str(timestamp),
        "Skep-Signature": signature(secret, timestamp, body),
    }
    try:
        async with asyncio.timeout(TIMEOUT_S):
            status = await _post(url, headers, body)
    except SkepError as error:
        return error.message
    except TimeoutError:
        return f"It did not answer within {TIMEOUT_S:g} s."
    except socket.gaierror:
        return "Its name cannot be resolved."
    except (OSError, httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, UnicodeError) as error:
        return f"The request failed ({type(error).__name__})."
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"It answered {status}; redirects are not followed."
    return f"It answered {status}."


async def _post(url: str, headers: Mapping[str, str], body: bytes) -> int:
    parts = addresses.parse(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = await addresses.resolve(host, port)
    async with httpx.AsyncClient(
        verify=_tls(), trust_env=False, follow_redirects=False, timeout=TIMEOUT_S
    ) as client:
        for number, address in enumerate(found[:MAX_ADDRESSES], 1):
            try:
                return await _post_to(client, url, address, headers, body)
            except httpx.ConnectError:
                if number == min(len(found), MAX_ADDRESSES):
                    raise
    raise OSError("no address")  # pragma: no cover - resolve returns at least one


async def _post_to(
    client: httpx.AsyncClient, url: str, address: str, headers: Mapping[str, str], body: bytes
) -> int:
    """Send to this very address; the name is what the certificate is checked for."""
    named = httpx.URL(url)
    request = client.build_request(
        "POST",
        named.copy_with(host=address),
        headers={**headers, "Host": named.netloc.decode("ascii")},
        content=body,
        extensions={"sni_hostname": named.raw_host.decode("ascii").strip("[]")},
    )
    response = await client.send(request, stream=True)
    try:
        read = 0
        async for chunk in response.aiter_raw():
            read += len(chunk)
            if read > MAX_ANSWER:
                break
    finally:
        await response.aclose()
    return response.status_code


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
