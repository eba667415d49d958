"""What happens to every job writes to no index of its row where it need not (HOT updates)."""

from __future__ import annotations

import pytest
from django.db import connection
from tests.support.jobs_world import attempts_of, report, submit
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.scheduling.tick import Scheduler, run_once

pytestmark = pytest.mark.django_db


def updates(table: str) -> tuple[int, int]:
    """Return the updates of a table in this transaction, and how many of them were HOT."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = %s",
            [table],
        )
        return cursor.fetchone()


def test_a_job_is_placed_and_its_task_starts_without_a_write_to_an_index_of_their_rows():
    alice = make_user("alice")
    vc = make_vc("ml", quotas={"A100": 1}, members=[alice])
    make_node("gpu-1", gpus=1)
    job = submit(alice, vc)
    before = updates("jobs_job")
    assert len(run_once(Scheduler())) == 1
    placed = updates("jobs_job")
    assert (placed[0] - before[0], placed[1] - before[1]) == (1, 1)
    before = updates("jobs_taskattempt")
    report(attempts_of(job), "running")
    started = updates("jobs_taskattempt")
    assert (started[0] - before[0], started[1] - before[1]) == (1, 1)
