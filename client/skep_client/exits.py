"""Exit codes of the command line, stable for scripts."""

from __future__ import annotations

from skep_client.errors import SkepError

OK = 0
FAILED = 1  # the job did not succeed, or the file is not a valid job
USAGE = 2
NOT_LOGGED_IN = 3
NOT_FOUND = 4
REFUSED = 5  # by the server, for a reason it names
UNREACHABLE = 6
INTERRUPTED = 130
PIPE = 141  # the reader of the output is gone; 128 + SIGPIPE


def of_error(error: SkepError) -> int:
    if error.code == "invalid_job":
        return FAILED
    known = {0: UNREACHABLE, 401: NOT_LOGGED_IN, 404: NOT_FOUND}
    return known.get(error.status, REFUSED)
