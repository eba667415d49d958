"""SIGKILL of a scheduler at every point of its tick: never half a gang, the next tick goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection
from tests.support.jobs_killed import POINTS
from tests.support.jobs_world import state_of, states_of, submit, tick
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster.models import Node
from skep_platform.jobs.models import GangNetwork, Job, Lease, TaskAttempt
from skep_platform.scheduling.tick import Scheduler
from skep_platform.scheduling.tick import tick as locked_tick

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parents[3]


@contextmanager
def scheduler_held_at(point: str) -> Iterator[subprocess.Popen[str]]:
    """A real process that has reached `point` of its tick; killed at the end if not before."""
    database = connection.settings_dict["NAME"]
    url = urlsplit(os.environ["SKEP_DATABASE_URL"])._replace(path=f"/{database}").geturl()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.jobs_killed", point],
        cwd=ROOT,
        env=os.environ | {"SKEP_DATABASE_URL": url},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "reached\n"
        yield process
    finally:
        process.kill()
        process.wait()


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.fixture
def gang() -> Job:
    """Over two nodes, so that devices, its network and revisions of both are at stake."""
    alice = make_user("alice")
    for i in range(2):
        make_node(f"gpu-{i}", gpus=2)
    return submit(alice, make_vc("vision", quotas={"A100": 4}, members=[alice]), instances=4)


def nothing_is_started(job: Job) -> bool:
    job = Job.objects.get(pk=job.pk)
    return (
        (job.state, job.attempt, job.placed_at) == ("WAITING", 0, None)
        and not TaskAttempt.objects.exists()
        and not Lease.objects.exists()
        and not GangNetwork.objects.exists()
        and not Node.objects.filter(desired_revision__gt=0).exists()
    )


@pytest.mark.parametrize("point", POINTS)
def test_a_scheduler_killed_in_its_tick_leaves_no_half_gang(gang, point):
    with scheduler_held_at(point) as process:
        assert nothing_is_started(gang)
        kill(process)
    assert nothing_is_started(gang)
    assert tick() == {str(gang.pk)}
    assert (state_of(gang), states_of(gang)) == ("WAITING", ["ASSIGNED"] * 4)
    assert Lease.objects.filter(released_at=None).count() == 4
    assert GangNetwork.objects.count() == 1
    assert set(Node.objects.values_list("desired_revision", flat=True)) == {1}


def test_only_one_scheduler_ticks_and_a_killed_one_makes_way(gang):
    with scheduler_held_at("planned") as process:
        assert locked_tick(Scheduler()) == 0
        kill(process)
    assert _ticks_soon() > 0
    assert states_of(gang) == ["ASSIGNED"] * 4


def _ticks_soon() -> int:
    """PostgreSQL sees the end of a killed client when it next looks at its socket."""
    for _ in range(1200):
        if rounds := locked_tick(Scheduler()):
            return rounds
        connection.cursor().execute("SELECT pg_sleep(0.05)")
    return 0
