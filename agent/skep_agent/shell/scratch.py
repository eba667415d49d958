"""Scratch of jobs that have ended is removed, by the server's word alone."""

from __future__ import annotations

from itertools import islice

import httpx
import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.join import trusted
from skep_agent.runtimes.base import Runtime
from skep_agent.statedir import Identity

ANSWER_S = 30.0
ASKED = 200  # jobs at a time

log = structlog.get_logger(__name__)


async def tidy(runtime: Runtime, identity: Identity) -> None:
    """Remove the scratch of those jobs which the server does not keep any more. Without its
    answer, nothing."""
    try:
        jobs = iter(sorted(await runtime.scratch_jobs()))
        while some := list(islice(jobs, ASKED)):
            await runtime.remove_scratch(set(some) - await _kept(some, identity))
    except (RuntimeFailure, httpx.HTTPError, OSError, ValueError, KeyError, TypeError) as failure:
        log.warning("scratch_not_tidied", problem=str(failure)[:300])


async def _kept(jobs: list[str], identity: Identity) -> set[str]:
    headers = {"Authorization": f"Bearer {identity.credential}"}
    url = f"{identity.gateway}/api/v1/agent/scratch"
    async with httpx.AsyncClient(timeout=ANSWER_S, verify=trusted(url)) as client:
        answer = await client.get(url, headers=headers, params={"job": jobs})
    return set(answer.raise_for_status().json()["keep"])
