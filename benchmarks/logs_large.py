"""`logs_large`: reading a log of 10 GB over REST, beside `tail`, `grep` and `cat` on its bytes.

Its 10,240 chunks are rows as always, but only a few of them have bytes of their own: reading costs
the same, and the disk holds no 10 GB.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import engines

engines.prepare_environment()
os.environ["DJANGO_SETTINGS_MODULE"] = "skep_platform.settings"

import django  # noqa: E402

django.setup()

import httpx  # noqa: E402
from benchmarks.report import report  # noqa: E402
from benchmarks.usage import memory_mb  # noqa: E402
from django.core.files.storage import storages  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import setup_databases, teardown_databases  # noqa: E402
from tests.support.gateway_rows import running_attempt  # noqa: E402
from tests.support.gateway_server import ProcessServer  # noqa: E402
from tests.support.platform_api import Api  # noqa: E402

from skep_platform.jobs.models import TaskAttempt  # noqa: E402

CHUNKS, FILES = 10_240, 16
LINE = "2026-11-21 08:00:00 step %07d loss 0.6931 lr 3e-4 tokens/s 12345.6 grad norm 1.0 eta 1 d"
LINES = 1024 * 1024 // (len(LINE % 0) + 1)
SIZE = LINES * (len(LINE % 0) + 1)  # of a chunk
GB = SIZE * CHUNKS / 1e9
NEEDLE = "step 9999999 "  # in no line
BENCH = "logs_large"


def main() -> None:
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        attempt = running_attempt(gpus=0)
        paths = _fill(attempt)
        token = Api(attempt.job.owner).token
        connection.close()
        with ProcessServer(SKEP_LOG_LEVEL="WARNING") as server, _client(server.port, token) as api:
            api.get("/info")
            with Memory(server.pid) as memory:
                _pages(api, attempt, paths)
                _search(api, attempt, paths)
                _downloads(api, attempt, paths)
            report(BENCH, "server_memory_growth", memory.grown, "MB")
    finally:
        connection.close_pool()  # type: ignore[attr-defined]
        teardown_databases(databases, verbosity=0)


def _fill(attempt: TaskAttempt) -> list[Path]:
    """Store the log; returns the files of its chunks in order."""
    text = "".join(f"{LINE % number}\n" for number in range(LINES)).encode()
    keys = [f"large/{number}" for number in range(FILES)]
    storages["logs"].save_many([(key, text) for key in keys])  # type: ignore[attr-defined]
    with connection.cursor() as cursor:
        cursor.execute(FILL, [attempt.job_id, attempt.pk, SIZE, SIZE, FILES, CHUNKS - 1])
        cursor.execute("ANALYZE telemetry_logchunk")
    paths = [Path(storages["logs"].path(key)) for key in keys]
    return [paths[number % FILES] for number in range(CHUNKS)]


FILL = """
INSERT INTO telemetry_logchunk (job_id, attempt_id, stream, "offset", size, at, key)
SELECT %s, %s, 'stdout', n::bigint * %s, %s, now(), 'large/' || n %% %s
  FROM generate_series(0, %s) n
"""


def _pages(api: httpx.Client, attempt: TaskAttempt, paths: list[Path]) -> None:
    logs, stream = f"/jobs/{attempt.job_id}/logs", f"/attempts/{attempt.pk}/logs/stdout"
    first = api.get(logs).json()["chunks"][0]["cursor"]
    tail = _seconds(lambda: subprocess.run(["tail", "-n", "1000", paths[-1]], capture_output=True))
    for metric, path, query in (
        ("page_at_the_start", logs, {}),
        ("page_in_the_middle", logs, {"cursor": first + CHUNKS // 2}),
        ("page_before_the_end", logs, {"before": first + CHUNKS - 1}),
        ("bytes_in_the_middle", stream, {"offset": SIZE * CHUNKS // 2}),
    ):
        report(BENCH, metric, 1000 * _seconds(lambda p=path, q=query: _get(api, p, q)), "ms")
    took = _seconds(lambda: _get(api, logs, {"tail": 1000}))
    report(BENCH, "tail_of_1000_lines", 1000 * took, "ms", 1000 * tail)


def _search(api: httpx.Client, attempt: TaskAttempt, paths: list[Path]) -> None:
    for metric, query, grep in (
        ("search_text", {"q": NEEDLE}, ["-F", NEEDLE]),
        ("search_any_case", {"q": NEEDLE, "ignore_case": 1}, ["-iF", NEEDLE]),
        ("search_regex", {"q": r"loss \d+\.\d* .*nan", "regex": 1}, ["-P", r"loss \d+\.\d* .*nan"]),
    ):
        took: list[float] = []
        cursor = ""
        while cursor is not None:
            began = time.perf_counter()
            found = _get(api, f"/jobs/{attempt.job_id}/logs/search", query | {"cursor": cursor})
            took.append(time.perf_counter() - began)
            cursor = found["next"]
        command = ["grep", "-c", *grep, *map(str, paths)]
        reference = _seconds(lambda c=command: subprocess.run(c, stdout=subprocess.DEVNULL))
        report(BENCH, metric, GB / sum(took), "GB/s", GB / reference)
        report(BENCH, f"{metric}_longest_request", max(took), "s")


def _downloads(api: httpx.Client, attempt: TaskAttempt, paths: list[Path]) -> None:
    files = " ".join(map(str, paths[:FILES]))
    command = f"for i in $(seq {CHUNKS // FILES}); do cat {files}; done | cat > /dev/null"
    reference = GB / _seconds(lambda: subprocess.run(command, shell=True))
    stream = f"/attempts/{attempt.pk}/logs/stdout?raw=1"
    merged = f"/jobs/{attempt.job_id}/logs/download?prefix=1"
    for metric, path in (("download_stream", stream), ("download_merged", merged)):
        size = 0
        began = time.perf_counter()
        with api.stream("GET", path) as response:
            for piece in response.iter_raw():
                size += len(piece)
        report(BENCH, metric, size / 1e9 / (time.perf_counter() - began), "GB/s", reference)


class Memory:
    """The most that a process used, above what it used at first."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first = self._most = memory_mb([pid])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @property
    def grown(self) -> float:
        return self._most - self._first

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self._most = max(self._most, memory_mb([self._pid]))


def _client(port: int, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{port}/api/v1",
        headers={"Authorization": f"Bearer {token}"},
        timeout=600,
        trust_env=False,
    )


def _get(api: httpx.Client, path: str, query: dict[str, Any]) -> Any:
    return api.get(path, params=query).raise_for_status().json()


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
