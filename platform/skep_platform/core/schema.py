"""The schema of the REST API, for clients that look for a server: what drf-spectacular cannot see
by itself (every operation may answer with a typed error), and the views that give it."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from django.views.decorators.http import condition
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework import permissions, renderers, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform import __version__


class ErrorSerializer(serializers.Serializer[Any]):
    """Every refusal has this shape. `code` is stable, `message` says what to do."""

    code = serializers.CharField()
    message = serializers.CharField()
    details = serializers.DictField()


class Schema(AutoSchema):
    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None:
            schema = self.resolve_serializer(ErrorSerializer, "response").ref
            content = {"application/json": {"schema": schema}}
            error = {"description": "Refused.", "content": content}
            operation["responses"].setdefault("default", error)
        return operation


def nullable_unions(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Write a nullable reference to a discriminated union as `oneOf` instead of `allOf`.

    drf-spectacular wraps each nullable reference in `allOf`, which generators of TypeScript read as
    inheritance from the union: they take its discriminator away.
    """
    schemas = result["components"]["schemas"]
    unions = {
        f"#/components/schemas/{name}" for name, one in schemas.items() if "discriminator" in one
    }
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if any(part.get("$ref") in unions for part in field.get("allOf", ())):
                field["oneOf"] = field.pop("allOf")
    return result


class InfoSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.CharField()
    sso_name = serializers.CharField(
        required=False,
        allow_blank=True,
        help_text="What to call single sign-on; empty: there is none.",
    )
    password_login = serializers.BooleanField(
        required=False, help_text="False: only admins log in by password."
    )
    password_recovery = serializers.BooleanField(
        required=False, help_text="Who forgot the password gets a link by e-mail."
    )


class InfoView(APIView):
    authentication_classes = ()
    permission_classes = (permissions.AllowAny,)

    @extend_schema(operation_id="info", responses=InfoSerializer, auth=[], tags=["info"])
    def get(self, request: Request) -> Response:
        sso_name = settings.SKEP_OIDC_NAME if settings.SKEP_OIDC_ISSUER else ""
        return Response(
            {
                "name": "Skep",
                "version": __version__,
                "sso_name": sso_name,
                "password_login": settings.SKEP_PASSWORD_LOGIN or bool(settings.SKEP_LDAP_URI),
                "password_recovery": bool(settings.EMAIL_HOST) and settings.SKEP_PASSWORD_LOGIN,
            }
        )


SCHEMA = Path(__file__).resolve().parent.parent / "openapi.yaml"
YAML, JSON = "application/vnd.oai.openapi", "application/vnd.oai.openapi+json"


@lru_cache(maxsize=2)
def schema_body(as_json: bool) -> tuple[bytes, str]:
    """Return the checked-in schema, or the same as JSON, and its ETag. It is read once in the life
    of the process: rendering it anew takes seconds, and any client may ask for it."""
    data = SCHEMA.read_bytes()
    if as_json:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        data = json.dumps(yaml.load(data, Loader=loader)).encode()  # noqa: S506 our own file
    return data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def _wants_json(request: HttpRequest) -> bool:
    return request.GET.get("format") == "json" or "json" in request.headers.get("Accept", "")


def _etag(request: HttpRequest, *_: object, **__: object) -> str:
    return schema_body(_wants_json(request))[1]


@method_decorator(condition(etag_func=_etag), name="dispatch")
class OpenApiView(APIView):
    """The schema of this API: YAML, or JSON where that is asked for."""

    authentication_classes = ()
    permission_classes = (permissions.AllowAny,)
    renderer_classes = (renderers.JSONRenderer,)

    def perform_content_negotiation(
        self, request: Request, *_: Any, **__: Any
    ) -> tuple[renderers.BaseRenderer, str]:
        """Give it to every client, whatever the client accepts."""
        return renderers.JSONRenderer(), "application/json"

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponseBase:
        as_json = _wants_json(request._request)
        response = HttpResponse(schema_body(as_json)[0], content_type=JSON if as_json else YAML)
        response["Cache-Control"] = "public, max-age=300"
        response["Vary"] = "Accept"
        return response
