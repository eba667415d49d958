"""Submitting jobs to a whole Skep over REST and reading what became of them."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}
_numbers = itertools.count(1)
T = TypeVar("T")


def gang(image: str, command: str, *, tasks: int = 4, gpus: int = 4, **more: Any) -> dict[str, Any]:
    """A job file; `more` are further top-level fields."""
    return {
        "protocolVersion": 2,
        "name": f"gang-{time.time_ns()}-{next(_numbers)}",
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": image}],
        "taskRoles": {
            "worker": {
                "instances": tasks,
                "dockerImage": "image",
                "resourcePerInstance": {"gpu": gpus, "cpu": 1, "memoryMB": 64},
                "commands": [command],
            }
        },
        **more,
    }


def submit(api: httpx.Client, job: dict[str, Any]) -> str:
    """Returns the job's id; fails with the server's own words."""
    answer = api.post("/jobs", json=job)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def node_states(api: httpx.Client) -> list[tuple[str, str]]:
    """The name and the state of each node."""
    found = api.get("/nodes").raise_for_status().json()["results"]
    return [(node["name"], node["state"]) for node in found]


def until(what: Callable[[], T | bool | None], within_s: float = 120) -> T:
    """The first true answer of `what`. Fails after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while True:
        found = what()
        if found:
            return found  # type: ignore[return-value]
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.05)


def job(api: httpx.Client, job_id: str) -> dict[str, Any]:
    """The job now. A server that is being restarted is asked again."""

    def ask() -> dict[str, Any] | None:
        try:
            answer = api.get(f"/jobs/{job_id}")
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    return until(ask)


def reach(
    api: httpx.Client, job_id: str, states: set[str], within_s: float = 180
) -> dict[str, Any]:
    """Wait until the job is in one of `states`; another end fails at once with its reason."""

    def look() -> dict[str, Any] | None:
        now = job(api, job_id)
        assert now["state"] in states or now["state"] not in ENDED, now
        return now if now["state"] in states else None

    return until(look, within_s)


def tasks(api: httpx.Client, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    answer = api.get(f"/jobs/{job_id}/tasks", params={"limit": 500}).raise_for_status().json()
    found += answer["results"]
    while answer["next"]:
        answer = api.get(answer["next"]).raise_for_status().json()
        found += answer["results"]
    return found


def log_lines(api: httpx.Client, job_id: str) -> dict[int, list[str]]:
    """The whole merged log once it is complete: lines of stdout by rank."""

    def read() -> dict[int, str] | None:
        cursor, texts = 0, defaultdict(str)
        while True:
            page = api.get(f"/jobs/{job_id}/logs", params={"cursor": cursor}).json()
            for chunk in page["chunks"]:
                if chunk["stream"] == "stdout":
                    texts[chunk["rank"]] += chunk["text"]
            if not page["chunks"]:
                return texts if page["complete"] else None
            cursor = page["next"]

    return {rank: text.splitlines() for rank, text in until(read).items()}


def log_of(api: httpx.Client, job_id: str) -> list[str]:
    """Lines of all tasks so far."""
    chunks = api.get(f"/jobs/{job_id}/logs").raise_for_status().json()["chunks"]
    return "".join(chunk["text"] for chunk in chunks).splitlines()
