"""A whole Skep whose Redis is a group behind Sentinel, of which the primary is killed."""

from __future__ import annotations

import pytest
from tests.support.sentinel import sentinel_group
from tests.support.stack import eventually, stack

pytestmark = [pytest.mark.stack, pytest.mark.long]
OPTIONS = ("--nodes=1", "--gpus=2", "--runtime=mock")


def test_jobs_go_on_and_others_are_placed_after_the_primary_was_killed():
    with sentinel_group() as group, stack(*OPTIONS, SKEP_REDIS_URL=group.url) as skep:
        running = skep.submit(name="goes-on", command="mock run_for=forever")
        skep.wait_for_job(running.id, lambda job: job.state == "RUNNING")

        group.kill_primary()

        later = skep.submit(name="comes-later", command="mock run_for=0.1")
        assert skep.wait_for_end(later.id).state == "SUCCEEDED"
        with skep.api() as api:
            found = api.get(f"/jobs/{running.id}").json()
            assert (found["state"], found["attempt"]) == ("RUNNING", 1)
            eventually(lambda: api.get("/health").json()["healthy"], 120)
