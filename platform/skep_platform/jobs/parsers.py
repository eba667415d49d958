"""Job files as request bodies: the text itself, bounded."""

from __future__ import annotations

from typing import IO, Any

from django.conf import settings
from rest_framework import status
from rest_framework.parsers import BaseParser

from skep_platform.core.errors import SkepError


class SpecTooLarge(SkepError):
    status = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    code = "spec_too_large"


class JobFileParser(BaseParser):
    """The body as text, whatever it says it is: the protocol tells JSON from YAML itself."""

    media_type = "application/yaml"

    def parse(self, stream: IO[Any], *_: Any, **__: Any) -> Any:
        most = settings.SKEP_MAX_SPEC_BYTES
        body = stream.read(most + 1)
        if len(body) > most:
            raise SpecTooLarge(f"A job file has at most {most} bytes.", most_bytes=most)
        try:
            return str(body.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            message = "A job file is text in UTF-8."
            raise SkepError(message, code="not_utf8", offset=error.start) from None


class YamlText(JobFileParser):
    media_type = "text/yaml"


class OldYaml(JobFileParser):
    media_type = "application/x-yaml"


class PlainText(JobFileParser):
    media_type = "text/plain"


class Json(JobFileParser):
    media_type = "application/json"


JOB_FILE_PARSERS = (JobFileParser, YamlText, OldYaml, PlainText, Json)
