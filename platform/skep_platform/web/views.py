"""The web UI: one page for every address, whose router shows the rest; its static files; the
documentation; and the content security policy of everything that we serve."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from skep_platform.core.failures import unknown_route

INDEX = Path(settings.BASE_DIR) / "web" / "static" / "webui" / "index.html"
# What scripts/docs-site writes; a checkout may have none.
DOCS = Path(settings.BASE_DIR) / "web" / "documentation"
# Where the page's element for the address of the documentation is filled in.
DOCS_SLOT = 'name="documentation" content="'

NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Skep</title></head>
<body><h1>Skep is running; its web page is not built.</h1>
<p>Build it with <code>make webui</code> in the checkout and reload.</p>
<p>The REST API answers under <a href="/api/v1/docs">/api/v1/docs</a>, and so does the
<code>skep</code> command line.</p></body></html>
"""


@require_safe
@ensure_csrf_cookie
def index(request: HttpRequest) -> HttpResponse:
    """Sets the cookie that writes of the page's session need."""
    try:
        text = _read(INDEX.stat().st_mtime_ns)
        text = text.replace(DOCS_SLOT, DOCS_SLOT + escape(docs_address()))
        status = 200
    except FileNotFoundError:
        text, status = NOT_BUILT, 503
    headers = {"Cache-Control": "no-cache", "Content-Security-Policy": APP}
    return HttpResponse(text, status=status, headers=headers)


def docs_address() -> str:
    """The address below which the documentation's pages lie, with a slash at its end; "" where
    there are none, and nothing links them."""
    if settings.SKEP_DOCS_URL:
        return f"{settings.SKEP_DOCS_URL.rstrip('/')}/"
    return "/docs/" if (DOCS / "index.html").is_file() else ""


@require_safe
def documentation(request: HttpRequest) -> HttpResponse:
    """Leads to the first page of the documentation."""
    address = docs_address()
    if not address:
        return unknown_route(request)
    return HttpResponseRedirect(f"{address}index.html")


@lru_cache(maxsize=1)
def _read(_changed: int) -> str:
    return INDEX.read_text()


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
    """Sets the content security policy of each answer: our own files and nothing else. Caches on
    the way keep nothing that the API answers."""

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


class StaticFiles(WhiteNoiseMiddleware):
    """Static files, read whole: WhiteNoise's streams are synchronous, which Django's ASGI handler
    would only collect in memory again, with a warning each time. The documentation is among them.
    They are looked for once in a process, which makes a handler for each client of its tests."""

    _found: ClassVar[dict[Path, Any]] = {}

    def add_files_from_finders(self) -> None:
        if DOCS in self._found:
            self.files = self._found[DOCS]
            return
        super().add_files_from_finders()
        if DOCS.is_dir():
            self.add_files(DOCS, prefix="docs/")
        self._found[DOCS] = self.files

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        with found.file or BytesIO() as file:
            response = HttpResponse(file.read(), status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response
