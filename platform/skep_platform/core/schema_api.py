"""The API's schema as a file: rendering it anew takes seconds, and anybody may ask for it."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from django.views.decorators.http import condition
from drf_spectacular.utils import extend_schema
from rest_framework import permissions, renderers
from rest_framework.request import Request
from rest_framework.views import APIView

SCHEMA = Path(__file__).resolve().parent.parent / "openapi.yaml"
YAML, JSON = "application/vnd.oai.openapi", "application/vnd.oai.openapi+json"


@lru_cache(maxsize=2)
def _body(as_json: bool) -> tuple[bytes, str]:
    """The file, or the same as JSON, and its ETag. Read once in the life of the process."""
    data = SCHEMA.read_bytes()
    if as_json:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        data = json.dumps(yaml.load(data, Loader=loader)).encode()  # noqa: S506 our own file
    return data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def _wants_json(request: HttpRequest) -> bool:
    return request.GET.get("format") == "json" or "json" in request.headers.get("Accept", "")


def _etag(request: HttpRequest, *_: object, **__: object) -> str:
    return _body(_wants_json(request))[1]


@method_decorator(condition(etag_func=_etag), name="dispatch")
class OpenApiView(APIView):
    """The schema of this API: YAML, or JSON where that is asked for."""

    authentication_classes = ()
    permission_classes = (permissions.AllowAny,)
    renderer_classes = (renderers.JSONRenderer,)

    def perform_content_negotiation(
        self, request: Request, *_: Any, **__: Any
    ) -> tuple[renderers.BaseRenderer, str]:
        """Every client gets it, whatever it accepts."""
        return renderers.JSONRenderer(), "application/json"

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponseBase:
        as_json = _wants_json(request._request)
        response = HttpResponse(_body(as_json)[0], content_type=JSON if as_json else YAML)
        response["Cache-Control"] = "public, max-age=300"
        response["Vary"] = "Accept"
        return response
