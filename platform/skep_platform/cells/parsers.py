"""A HiveD file as a request body: its text, bounded."""

from __future__ import annotations

from typing import IO, Any

from rest_framework import status
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from skep_platform.core.errors import SkepError

# Ten thousand nodes, each with its address, and twice that.
MAX_BYTES = 1024 * 1024


class LayoutTooLarge(SkepError):
    status = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    code = "layout_too_large"


class LayoutParser(BaseParser):
    media_type = "text/yaml"

    def parse(self, stream: IO[Any], *_: Any, **__: Any) -> Any:
        body = stream.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise LayoutTooLarge(f"A HiveD file has at most {MAX_BYTES} bytes.", most=MAX_BYTES)
        try:
            return str(body.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            message = "A HiveD file is text in UTF-8."
            raise SkepError(message, code="not_utf8", offset=error.start) from None


class ApplicationYaml(LayoutParser):
    media_type = "application/yaml"


class OldYaml(LayoutParser):
    media_type = "application/x-yaml"


class PlainText(LayoutParser):
    media_type = "text/plain"


class Json(LayoutParser):
    """JSON is YAML."""

    media_type = "application/json"


LAYOUT_PARSERS = (LayoutParser, ApplicationYaml, OldYaml, PlainText, Json)


def layout_text(request: Request) -> str:
    """REST framework parses nothing where nothing was sent."""
    return request.data if isinstance(request.data, str) else ""
