"""How values lie in the cache."""

from __future__ import annotations

import json
from typing import Any


class JsonSerializer:
    """JSON instead of Django's pickle: who can write to the cache must not be able to run code in
    the servers. Tuples come back as lists; what is no JSON comes back as None."""

    def dumps(self, value: Any) -> Any:
        # As in Django's own: a number that Redis itself can count up.
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
