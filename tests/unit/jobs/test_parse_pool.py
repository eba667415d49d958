"""The workers that read text of users: their limits, and that they are replaced."""

from __future__ import annotations

import fcntl
import gzip
import os
import select
import signal
import socket
import tempfile
import termios
import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skep_platform.core.errors import SkepError
from skep_platform.core.parse_pool import InputTooCostly, ParsePool
from skep_platform.core.parse_worker import REQUESTS

GOOD = '{"name": "a", "taskRoles": {}}'


@pytest.fixture
def pool():
    found = ParsePool(workers=2, cpu_s=0.3, memory_mib=64)
    yield found
    found.close()


def works(pool: ParsePool) -> bool:
    return "problems" in pool.call("read", text=GOOD)


def children_of(pool: ParsePool) -> list[int]:
    forks = pool._forks._process.pid
    children = Path(f"/proc/{forks}/task/{forks}/children").read_text().split()
    assert children
    return [int(child) for child in children]


def unread_bytes(own: socket.socket) -> int:
    """Return how much of what was sent the other side has not read."""
    count = array("i", [0])
    fcntl.ioctl(own, termios.TIOCOUTQ, count)
    return count[0]


def test_finding_s1_a_worker_that_spends_its_time_is_replaced(pool):
    costly = "".join(f"key{number}: {number}\n" for number in range(4_900))
    for _ in range(3):
        with pytest.raises(InputTooCostly) as refused:
            pool.call("read", text=costly)
        assert refused.value.status == 400
        assert refused.value.details["cpu_seconds"] == 0.3
        assert "0.3 s" in refused.value.message
    assert works(pool)


def test_finding_s4_a_worker_that_spends_its_memory_is_replaced(pool):
    with pytest.raises(InputTooCostly) as refused:
        pool.call("rename", text="{}", name="x" * 30_000_000)
    assert refused.value.details["resource"] in ("memory", "time", "time or memory")
    assert works(pool)


def test_errors_of_a_call_come_back_as_they_were(pool):
    with pytest.raises(SkepError) as refused:
        pool.call("read", text="a: [")
    assert refused.value.code == "invalid_job"
    assert refused.value.details["errors"][0]["code"] == "syntax"


def test_one_user_never_has_all_workers(pool):
    with pool._worker("ann"):
        assert not pool._is_free("ann")
        assert pool._is_free("bob")
        assert works(pool)
    assert pool._is_free("ann")


def test_many_threads_share_few_workers(pool):
    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(lambda n: works(pool), range(100)))
    assert pool._busy.total() == 0


def test_a_fork_of_the_process_starts_workers_of_its_own(pool):
    assert works(pool)
    pool._pid = -1  # as a fork sees it
    assert works(pool)


def test_files_are_read_by_descriptor(pool):
    with tempfile.TemporaryFile() as file:
        file.write(gzip.compress(bytes(1024)))
        file.seek(0)
        found = pool.call("archive", descriptor=file.fileno())
    assert found == {"unpacked_size": 1024, "files": 0}


def test_no_request_is_refused_because_its_worker_has_served_its_time(pool):
    for _ in range(REQUESTS + 1):  # one after the other: all by one worker
        assert pool.call("read", text="{}")["problems"]


def test_no_request_takes_the_blame_for_a_worker_that_ended_while_it_was_idle(pool):
    assert works(pool)
    for child in children_of(pool):
        os.kill(child, signal.SIGKILL)
    select.select(pool._idle, [], [], 10)  # until the end of its connection is seen
    assert works(pool)


def test_a_text_is_read_again_when_its_worker_was_killed(pool):
    assert works(pool)
    (idle,) = pool._idle
    (child,) = children_of(pool)
    os.kill(child, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(works, pool)
        while not unread_bytes(idle):
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        assert answer.result(30)


def test_a_pool_that_was_closed_starts_again(pool):
    assert works(pool)
    pool.close()
    assert works(pool)


def test_the_first_call_of_a_prepared_pool_finds_its_process_there(pool):
    pool.prepare()
    prepared = pool._forks._process.pid
    assert works(pool)
    assert pool._forks._process.pid == prepared
