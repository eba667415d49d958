"""Reading request bodies. Its own module: REST framework loads it while it loads its views."""

from __future__ import annotations

from typing import Any

from rest_framework import parsers
from rest_framework.exceptions import ParseError


class JSONParser(parsers.JSONParser):
    """Also refuses JSON that is nested deeper than Python can read."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().parse(*args, **kwargs)
        except RecursionError:
            raise ParseError("The JSON is nested too deep.") from None
