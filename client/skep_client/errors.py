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
