"""A process that is killed inside its container is no lack of memory: the job is tried again."""

from __future__ import annotations

import pytest
from tests.support.stack_jobs import gang, reach, submit

pytestmark = [pytest.mark.stack, pytest.mark.docker]

# As torchrun reports a rank that was killed, and as a shell does.
KILLED = """
if [ "$SKEP_JOB_ATTEMPT" = 2 ]; then echo again; exit 0; fi
sh -c 'kill -9 $$'
echo "Root Cause: Signal 9 (SIGKILL) received by PID 71" >&2
echo Killed >&2
exit CODE"""


@pytest.mark.parametrize("exit_code", [137, 1])
def test_finding_j2_a_small_process_that_is_killed_is_tried_again_for_free(api, image, exit_code):
    file = gang(image, KILLED.replace("CODE", str(exit_code)), tasks=2, gpus=1, jobRetryCount=3)
    file["taskRoles"]["worker"]["resourcePerInstance"]["memoryMB"] = 8192

    job_id = submit(api, file)

    done = reach(api, job_id, {"SUCCEEDED"})
    assert (done["attempt"], done["retries_used"], done["free_retries"]) == (2, 0, 1)
    first = api.get(f"/jobs/{job_id}/attempts").json()["results"][-1]
    assert first["retry"] == "free"
    assert first["diagnosis"]["category"] == "Killed by signal"
