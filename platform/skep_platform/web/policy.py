"""The content security policy of everything we serve: our own files and nothing else. And what
the API answers is kept by nobody on the way."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

# Of the web page, which writes no style elements: Mantine's variables are a file, the editor's
# styles are constructed sheets. Style attributes are what Chromium itself writes when one types
# over a selection in the editor. A WebSocket of the same origin is 'self' to CSP 3.
APP = "; ".join(
    [
        "default-src 'self'",
        "style-src-attr 'unsafe-inline'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)
# Of the API's browsable docs: Swagger UI writes style elements.
PAGE = f"{APP}; style-src 'self' 'unsafe-inline'"
# Answers that are no page: nothing in them may run or load, whatever a browser takes them for.
DATA = "default-src 'none'; frame-ancestors 'none'"


class ContentPolicy:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        kind = response.headers.get("Content-Type", "")
        page = kind.startswith(("text/html", "text/javascript", "application/javascript"))
        response.headers.setdefault("Content-Security-Policy", PAGE if page else DATA)
        if request.path.startswith("/api/"):
            response.headers.setdefault("Cache-Control", "no-store")
        return response
