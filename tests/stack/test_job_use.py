"""What a finished job used, reported without anyone asking for it to be counted."""

from __future__ import annotations

import httpx
import pytest
from tests.support.stack_jobs import gang, reach, submit, until

pytestmark = [pytest.mark.stack, pytest.mark.docker]


def test_a_job_is_summed_up_soon_after_its_end(api: httpx.Client, image: str) -> None:
    job_id = submit(api, gang(image, "sleep 12", tasks=2, gpus=2))
    assert api.get(f"/jobs/{job_id}/use").json()["code"] == "not_yet"
    reach(api, job_id, {"SUCCEEDED"})
    use = until(lambda: (r := api.get(f"/jobs/{job_id}/use")).status_code == 200 and r.json())
    assert use["gpu_hours"] >= 4 * 12 / 3600
    assert use["gpu_utilization"] is not None
    assert use["asked"] == {"gpus": 4, "cpus": 1.0, "memory_mb": 64}
