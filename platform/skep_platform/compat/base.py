"""What all views of OpenPAI's API share: authentication, errors, and how bodies are read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import structlog
from django.urls import URLPattern, path
from rest_framework import parsers
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts.current_user import TokenAuthentication, admitted
from skep_platform.accounts.models import ApiToken, User
from skep_platform.audit.refusals import exception_handler
from skep_platform.compat import errors
from skep_platform.core.api import Body
from skep_platform.core.errors import NotFound
from skep_platform.core.parsers import JSONParser, LargeJsonRenderer

log = structlog.get_logger(__name__)


class ClientAuthentication(TokenAuthentication):
    """`Bearer TOKEN`, or `Basic` with the user name and a token in the place of a password, as
    OpenPAI's application tokens are sent. Never the cookie of a session: no page of another site
    can write here."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header.lower().startswith("basic "):
            return super().authenticate(request)
        username, token = _basic(header[6:])
        user, used = self.authenticate_credentials(token.encode())
        if user.get_username() != username:
            raise AuthenticationFailed("The token is of another user.")
        return admitted(user, used, request)


def _basic(encoded: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except ValueError:
        text = ""
    username, _, token = text.partition(":")
    if not token.isascii() or not token.strip() or " " in token:
        raise AuthenticationFailed("Send the user name and a token, in Base64.")
    return username, token


class CompatView(APIView):
    """A view of OpenPAI's API. `missing` and `taken`: codes of OpenPAI for an object that does not
    exist, and for a name that is taken."""

    authentication_classes = (ClientAuthentication,)
    parser_classes: Any = (JSONParser, parsers.FormParser)
    renderer_classes = (LargeJsonRenderer,)
    schema = None  # described by OpenPAI's own swagger, not by ours
    missing = errors.NO_API
    taken = "ConflictUserError"

    def get_exception_handler(self) -> Any:
        return self._rendered

    def _rendered(self, error: Exception, context: dict[str, Any]) -> Response:
        response = exception_handler(error, context)
        if response is None:
            log.exception("openpai_request_failed", exc_info=error)
            body = {"code": "internal_error", "message": "The server failed.", "details": {}}
            response = Response(body, status=500)
        return errors.translated(response, self.missing, self.taken)


class PublicView(CompatView):
    """For requests without a credential; one that is sent is not looked at."""

    authentication_classes = ()  # type: ignore[assignment]
    permission_classes = (AllowAny,)


class PaiUnknownView(PublicView):
    """Whatever OpenPAI's API does not have."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound(f"There is no {request.method} {request.path[:200]}.", code="unknown_route")


class Fields(Body):
    """The body of a request; fields that it does not list are passed over, as OpenPAI does."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            data = {name: data[name] for name in data if name in self.fields}
        return super().to_internal_value(data)


def wrapped(body: type[Fields], request: Request) -> dict[str, Any]:
    """Return what is in `data` of a body `{data, patch}`, checked; fields that are not there are
    not changed. Raises ValidationError."""
    data = request.data.get("data") if isinstance(request.data, Mapping) else None
    parsed = body(data=data, partial=True)
    parsed.is_valid(raise_exception=True)
    return dict(parsed.validated_data)


def done(message: str, status: int = 200, **more: Any) -> Response:
    return Response({"message": message, **more}, status=status)


def both(
    route: str, view: type[APIView], extra: Mapping[str, str] | None = None
) -> list[URLPattern]:
    """Return the route with and without a slash at its end: OpenPAI takes either. `extra` is given
    to the view with what the address has."""
    answer, given = view.as_view(), dict(extra or {})
    return [path(route, answer, given), path(f"{route}/", answer, given)]
