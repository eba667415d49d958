"""The web UI: one page for every address; its router shows the rest."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from skep_platform.web.policy import APP

INDEX = Path(settings.BASE_DIR) / "web" / "static" / "webui" / "index.html"

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
        status = 200
    except FileNotFoundError:
        text, status = NOT_BUILT, 503
    headers = {"Cache-Control": "no-cache", "Content-Security-Policy": APP}
    return HttpResponse(text, status=status, headers=headers)


@lru_cache(maxsize=1)
def _read(_changed: int) -> str:
    return INDEX.read_text()
