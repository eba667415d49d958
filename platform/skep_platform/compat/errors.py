"""The codes of Skep's errors, as clients of OpenPAI know them.

OpenPAI answers `{code, message}`; its codes are names of errors. The one table is `CODES`. What is
not in it follows from the status, and from what the view is about: a missing job is `NoJobError`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from rest_framework.response import Response

UNKNOWN = "UnknownError"
FORBIDDEN = "ForbiddenUserError"
INVALID = "InvalidParametersError"
UNAUTHORIZED = "UnauthorizedUserError"
NO_API = "NoApiError"


class PaiError(NamedTuple):
    """A code of OpenPAI and its status; None: that of Skep's error."""

    code: str
    status: int | None = None


CODES = {
    "login_failed": PaiError("IncorrectPasswordError", 400),
    "password_wrong": PaiError("IncorrectPasswordError", 400),
    "password_weak": PaiError(INVALID, 400),
    "mfa_required": PaiError(FORBIDDEN, 403),
    "mfa_code_wrong": PaiError("IncorrectPasswordError", 400),
    "mfa_setup_required": PaiError(FORBIDDEN, 403),
    "invalid_job": PaiError("InvalidProtocolError", 400),
    "syntax": PaiError("InvalidProtocolError", 400),
    "not_utf8": PaiError("InvalidProtocolError", 400),
    "spec_too_large": PaiError("InvalidProtocolError", 413),
    "storage_not_mounted": PaiError("InvalidProtocolError", 400),
    "job_name_taken": PaiError("ConflictJobError", 409),
    "client_token_reused": PaiError("ConflictJobError", 409),
    "unknown_virtual_cluster": PaiError("NoVirtualClusterError", 404),
    "not_a_member": PaiError(FORBIDDEN, 403),
    "storage_not_found": PaiError("NoStorageError", 404),
    "storage_forbidden": PaiError(FORBIDDEN, 403),
    "exceeds_quota": PaiError("NoEnoughQuotaError", 403),
    "budget_exhausted": PaiError("NoEnoughQuotaError", 403),
    "job_ended": PaiError("ReadOnlyJobError", 403),
    "last_admin": PaiError("RemoveAdminError", 403),
    "not_yourself": PaiError("RemoveAdminError", 403),
    "throttled": PaiError(UNKNOWN, 429),
    "method_not_allowed": PaiError(NO_API, 404),
    "not_implemented": PaiError("NotImplementedError", 400),
    "no_ssh": PaiError("NoJobSshInfoError", 404),
    "no_task": PaiError("NoTaskError", 404),
    "no_tag": PaiError("NoTagError", 404),
    "no_user": PaiError("NoUserError", 404),
    "no_group": PaiError("NoGroupError", 404),
    "no_virtual_cluster": PaiError("NoVirtualClusterError", 404),
    "logs_deleted": PaiError("NoTaskLogError", 404),
    "unknown_route": PaiError(NO_API, 404),
}
BY_STATUS = {
    400: INVALID,
    401: UNAUTHORIZED,
    403: FORBIDDEN,
    405: NO_API,
    413: INVALID,
    415: INVALID,
    422: INVALID,
}


def translated(response: Response, missing: str, taken: str) -> Response:
    """Turn an answer with Skep's error into one with OpenPAI's. `missing` and `taken`: the codes
    of what the view is about, where it does not exist or exists already."""
    error = response.data
    known = CODES.get(error["code"])
    by_status = {**BY_STATUS, 404: missing, 409: taken, 410: missing}
    code = known.code if known else by_status.get(response.status_code, UNKNOWN)
    if response.status_code == 410:
        response.status_code = 404
    if known and known.status:
        response.status_code = known.status
    response.data = {"code": code, "message": _message(error)}
    return response


def _message(error: dict[str, Any]) -> str:
    """Return the sentence, and after it what OpenPAI has in the message: all that is wrong."""
    details = error.get("details", {})
    found = details.get("errors") or details.get("fields")
    return f"{error['message']} {json.dumps(found, default=str)}" if found else error["message"]
