"""What the proxy of apps answers by itself: pages and errors, which load and run nothing."""

from __future__ import annotations

import html
import json
from typing import Any

from skep_platform.core.errors import SkepError

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>{refresh}
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1rem}}
@media (prefers-color-scheme:dark){{body{{background:#1a1b1e;color:#e9ecef}}a{{color:#74c0fc}}}}
</style></head><body><main><h1>{title}</h1><p>{text}</p><p><a href="{link}">{label}</a></p></main>
</body></html>
"""
_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    ),
]


async def page(
    send: Any, status: int, title: str, text: str, link: str, label: str, refresh_s: int = 0
) -> None:
    values = {"title": title, "text": text, "link": link, "label": label}
    safe = {name: html.escape(value) for name, value in values.items()}
    refresh = f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else ""
    body = _PAGE.format(**safe, refresh=refresh).encode()
    await _send(send, status, body, [(b"content-type", b"text/html; charset=utf-8")])


async def error(send: Any, problem: SkepError) -> None:
    body = json.dumps(problem.as_dict()).encode()
    await _send(send, problem.status, body, [(b"content-type", b"application/json")])


async def redirect(send: Any, location: str, *cookies: str) -> None:
    headers = [(b"location", location.encode("latin-1"))]
    headers += [(b"set-cookie", cookie.encode("latin-1")) for cookie in cookies]
    await _send(send, 303, b"", headers)


async def deny_socket(scope: Any, send: Any, problem: SkepError) -> None:
    """Refuse the handshake of a WebSocket by an HTTP answer."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return
    body = json.dumps(problem.as_dict()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start = {"type": "websocket.http.response.start", "status": problem.status}
    await send({**start, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def _send(send: Any, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    every = [*_HEADERS, *headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": body})
