"""Ten thousand lines a second while the agent is killed twice: complete to the byte."""

from __future__ import annotations

import httpx
import pytest
from tests.support.stack import Stack
from tests.support.stack_jobs import gang, reach, submit, tasks, until

pytestmark = [pytest.mark.stack, pytest.mark.docker]

BATCH, BATCHES = 1200, 170  # lines of a batch, of which there are ten a second at most
LINE = "step %07d loss 0.693147 lr 3e-4 tokens/s 12345.6 grad norm 1.0 of a line like any other"
WRITE = (
    f"awk -v n=$n 'BEGIN {{ for (i = n; i < n + {BATCH}; i++) {{"
    f' printf "{LINE}\\n", i; if (i % 100 == 0) printf "warning %07d\\n", i > "/dev/stderr" }} }}\''
)
FLOOD = f"n=0; while [ $n -lt {BATCH * BATCHES} ]; do {WRITE}; n=$((n + {BATCH})); sleep 0.1; done"


def test_no_byte_is_lost_or_doubled(skep: Stack, api: httpx.Client, image: str) -> None:
    job_id = submit(api, gang(image, FLOOD, tasks=1, gpus=1))
    reach(api, job_id, {"RUNNING"})
    attempt = tasks(api, job_id)[0]["attempt"]
    streams = f"/attempts/{attempt['id']}/logs"
    agent = next(name for name in skep.pids() if name.endswith(attempt["node"]))
    expected = b"".join(b"%s\n" % (LINE % n).encode() for n in range(BATCH * BATCHES))

    for part in (1, 2):
        until(lambda part=part: size(api, streams) > part * len(expected) // 4)
        dead = skep.kill(agent)
        until(lambda dead=dead: skep.pids().get(agent, dead) != dead)

    done = reach(api, job_id, {"SUCCEEDED"})
    assert done["attempt"] == 1, "it was not started a second time"
    until(lambda: api.get(f"{streams}/stderr", params={"tail": 1}).json()["complete"])
    until(lambda: api.get(f"{streams}/stdout", params={"tail": 1}).json()["complete"])
    assert whole(api, f"{streams}/stdout") == expected
    warnings = b"".join(b"warning %07d\n" % n for n in range(0, BATCH * BATCHES, 100))
    assert whole(api, f"{streams}/stderr") == warnings
    merged = api.get(f"/jobs/{job_id}/logs/download").content.splitlines()
    assert sorted(merged) == sorted((expected + warnings).splitlines())


def size(api: httpx.Client, streams: str) -> int:
    return int(api.get(f"{streams}/stdout", params={"tail": 1}).raise_for_status().json()["size"])


def whole(api: httpx.Client, path: str) -> bytes:
    return api.get(path, params={"raw": 1}).raise_for_status().content
