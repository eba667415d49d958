"""What can go wrong between us and the server."""

from __future__ import annotations

from typing import Any


class SkepError(Exception):
    """The server refused. `code` is stable, `message` says what to do, `details` has numbers."""

    def __init__(
        self, status: int, code: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details or {}


class ServerUnreachable(SkepError):
    """No answer, or one that is not Skep's, after all retries."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "server_unreachable", message)


def unknown_fields(error: SkepError) -> set[str]:
    """Return the fields of a request that a server of the version before refused, as it does not
    know them."""
    fields = error.details.get("fields") if error.code == "invalid" else None
    if not isinstance(fields, dict):
        return set()
    return {name for name, why in fields.items() if why == ["Unknown field."]}
