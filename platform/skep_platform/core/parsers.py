"""How request bodies are read, and large answers written. Its own module: REST framework loads it
while it loads its views."""

from __future__ import annotations

import json
import math
import re
from typing import IO, Any

from pydantic_core import to_json
from rest_framework import parsers
from rest_framework.exceptions import ParseError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.utils.json import strict_constant

from skep_platform.core.errors import SkepError

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class JSONParser(parsers.JSONParser):
    """Reads JSON, which is UTF-8 whatever `charset` a client names: some decoders take minutes for
    a text of two megabytes. Also refuses what neither the database nor an answer can hold, in the
    names of fields, too: numbers beyond those of JSON, and halves of surrogate pairs; and JSON that
    is nested deeper than Python can read."""

    def parse(self, stream: IO[Any], *_: Any, **__: Any) -> Any:
        try:
            text = stream.read().decode()
            found = json.loads(text, parse_float=_finite, parse_constant=strict_constant)
            if SURROGATE.search(text):
                json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ParseError("A text has half of a surrogate pair.") from None
        except ValueError as error:
            raise ParseError(f"JSON parse error - {error}") from None
        except RecursionError:
            raise ParseError("The JSON is nested too deep.") from None
        return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


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
    """Return a parser for each media type of a file in YAML, and so in JSON. The text is not parsed
    here: its errors are reported with line and column later."""
    known = {"what": what, "most": most, "too_large": too_large}
    types = ("application/yaml", "text/yaml", "application/x-yaml", "text/plain")
    return tuple(
        type("YamlParser", (TextParser,), known | {"media_type": media_type})
        for media_type in (*types, "application/json")
    )


def body_text(request: Request) -> str:
    """Return the body as a TextParser read it; "" where nothing was sent: REST framework then calls
    no parser."""
    return request.data if isinstance(request.data, str) else ""


class LargeJsonRenderer(JSONRenderer):
    """Renders as REST framework's own renderer does, in a fifth of its time. The answer is made of
    plain values: no lazy strings, and no numbers that JSON does not know."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Any = None,
    ) -> bytes:
        return b"" if data is None else to_json(data, inf_nan_mode="null")
