"""A scheduler whose database fails over: its connections lead to a server that takes no writes."""

from __future__ import annotations

import pytest
from tests.support.failover import read_only
from tests.support.gateway_server import wait_until
from tests.support.jobs_world import states_of, submit
from tests.support.platform_factories import make_node, make_user, make_vc
from tests.support.worker_process import START_S, CeleryProcess, leader

from skep_platform.core import notifications

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_scheduler_goes_on_without_a_restart_once_writes_are_taken_again():
    with CeleryProcess() as process:
        wait_until(leader, "it leads", START_S)
        with read_only():
            process.wait_for("read-only transaction")
        alice = make_user("alice")
        make_node("gpu-1", gpus=8)
        job = submit(alice, make_vc("vision", quotas={"A100": 8}, members=[alice]))

        def is_placed() -> bool:
            notifications.notify_scheduler()  # as a beat does
            return bool(states_of(job))

        wait_until(is_placed, "it is placed")
