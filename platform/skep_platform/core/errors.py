"""Typed errors that a user can see: a stable code, a sentence that says what to do, the numbers."""

from __future__ import annotations

from typing import Any

from skep_jobfile.plain import plain, plain_data


class SkepError(Exception):
    """Base of every error shown to a user; the API renders it as {code, message, details}."""

    status = 400
    code = "bad_request"

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = plain(message)
        self.code = code or self.code
        self.details = plain_data(details)

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "details": self.details}


class NotFound(SkepError):
    """The object does not exist, or the caller may not know that it does."""

    status = 404
    code = "not_found"


class Unauthorized(SkepError):
    """Who asks is not known: log in."""

    status = 401
    code = "not_authenticated"


class Forbidden(SkepError):
    status = 403
    code = "forbidden"


class Conflict(SkepError):
    """The request contradicts the present state."""

    status = 409
    code = "conflict"


class Gone(SkepError):
    """It existed, and was deleted on purpose."""

    status = 410
    code = "gone"


class TooMany(SkepError):
    """Asked too often; `retry_after_s` in the details says when to try again."""

    status = 429
    code = "throttled"


class Unavailable(SkepError):
    """A part that we need is away for a moment; the same request may be sent again."""

    status = 503
    code = "unavailable"


class IllegalTransition(SkepError):
    """A state machine was asked for a move that its table does not have: a defect of ours."""

    status = 409
    code = "illegal_transition"
