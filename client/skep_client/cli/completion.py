"""Names that the shell completes, from the server; where that takes too long, nothing."""

from __future__ import annotations

from dataclasses import replace

LONGEST_S = 1.5
MOST = 50


def job_names(incomplete: str) -> list[str]:
    """The newest jobs whose names begin so."""
    from skep_client import calls, config
    from skep_client.client import Skep

    login = config.login()
    call = replace(calls.jobs(search=incomplete, limit=MOST), timeout_s=LONGEST_S)
    try:
        with Skep(login.server, login.token, retry_delays_s=()) as skep:
            found = skep.run(call).results
    except Exception:  # whatever it is, a shell has no place to tell it
        return []
    return list(dict.fromkeys(job.name for job in found if job.name.startswith(incomplete)))
