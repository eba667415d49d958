"""Archives as request bodies: the stream itself, never read into memory."""

from __future__ import annotations

from typing import IO, Any

from rest_framework.parsers import BaseParser


class GzipStream(BaseParser):
    media_type = "application/gzip"

    def parse(self, stream: IO[bytes], *_: Any, **__: Any) -> Any:
        return stream


class OldGzipStream(GzipStream):
    media_type = "application/x-gzip"
