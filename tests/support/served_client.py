"""The client and the command line against this server, in one process."""

from __future__ import annotations

import httpx
from django.test import Client

NOT_PASSED_ON = ("content-type", "content-length", "host")


def served(request: httpx.Request) -> httpx.Response:
    """Answer a request of the client by this server."""
    headers = {
        f"HTTP_{name.upper().replace('-', '_')}": value
        for name, value in request.headers.items()
        if name not in NOT_PASSED_ON
    }
    answer = Client().generic(
        request.method,
        request.url.raw_path.decode(),
        request.read(),
        content_type=request.headers.get("content-type", "application/json"),
        **headers,
    )
    content = b"".join(answer) if answer.streaming else answer.content
    kept = ("content-type", "content-encoding", "content-range", "etag")
    headers = {name: answer.headers[name] for name in kept if name in answer.headers}
    return httpx.Response(answer.status_code, content=content, headers=headers)
