"""Reading request bodies. Its own module: REST framework loads it while it loads its views."""

from __future__ import annotations

from typing import IO, Any

from rest_framework import parsers
from rest_framework.exceptions import ParseError
from rest_framework.request import Request

from skep_platform.core.errors import SkepError


class JSONParser(parsers.JSONParser):
    """Also refuses JSON that is nested deeper than Python can read."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().parse(*args, **kwargs)
        except RecursionError:
            raise ParseError("The JSON is nested too deep.") from None


class TextParser(parsers.BaseParser):
    """A file as a request body: its text in UTF-8, bounded."""

    what: str  # as in "A job file"
    most: int  # bytes
    too_large: str  # code of the error

    def parse(self, stream: IO[Any], *_: Any, **__: Any) -> Any:
        body = stream.read(self.most + 1)
        if len(body) > self.most:
            raise self._too_large()
        try:
            return str(body.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            message = f"{self.what} is text in UTF-8."
            raise SkepError(message, code="not_utf8", offset=error.start) from None

    def _too_large(self) -> SkepError:
        message = f"{self.what} has at most {self.most} bytes."
        error = SkepError(message, code=self.too_large, most_bytes=self.most)
        error.status = 413
        return error


def yaml_parsers(what: str, most: int, too_large: str) -> tuple[type[TextParser], ...]:
    """One for each type that a file in YAML, and so in JSON, comes as. The text is not parsed: its
    errors shall be told with line and column."""
    known = {"what": what, "most": most, "too_large": too_large}
    types = ("application/yaml", "text/yaml", "application/x-yaml", "text/plain")
    return tuple(
        type("YamlParser", (TextParser,), known | {"media_type": media_type})
        for media_type in (*types, "application/json")
    )


def body_text(request: Request) -> str:
    """The body as a TextParser read it; REST framework parses none where nothing was sent."""
    return request.data if isinstance(request.data, str) else ""
