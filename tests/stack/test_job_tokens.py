"""A container that submits the follower of its job, with the token of the job."""

from __future__ import annotations

import json

import httpx
import pytest
from tests.support.stack_jobs import gang, job, log_lines, reach, submit

pytestmark = [pytest.mark.stack, pytest.mark.docker]

# The last line is the token backwards, which no mask knows: the test needs it after the job.
SUBMIT = """
wget -q -O - --header "Authorization: Bearer $SKEP_TOKEN" \\
  --header "Content-Type: application/json" --post-data '{follower}' \\
  "$SKEP_URL/api/v1/jobs" > /dev/null && echo submitted
echo "the token is $SKEP_TOKEN"
echo "$SKEP_TOKEN" | rev"""


def test_29_a_container_submits_its_follower_and_its_token_ends_with_the_job(api, image):
    [vc] = api.get("/me").json()["virtual_clusters"]
    limit = f"/virtual-clusters/{vc['name']}/limits/host_network"
    # The server of this test listens at the loopback of the node only.
    assert api.put(limit, json={"value": 1}).status_code == 200
    follower = gang(image, "echo followed", tasks=1, gpus=0)
    script = SUBMIT.format(follower=json.dumps(follower))
    extras = {"skep": {"apiToken": True, "network": "host"}}
    first = submit(api, gang(image, script, tasks=1, gpus=0, extras=extras))
    ended = reach(api, first, {"SUCCEEDED"})

    submitted, told, backwards = log_lines(api, first)[0]
    token = backwards[::-1]
    assert submitted == "submitted"
    assert token.startswith("skt_")
    assert token not in told
    found = api.get("/jobs", params={"search": follower["name"]}).json()["results"]
    second = job(api, found[0]["id"])
    assert second["parent"] == {"id": first, "name": ended["name"]}
    assert second["owner"] == ended["owner"]
    reach(api, second["id"], {"SUCCEEDED"})
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.get(f"{api.base_url}jobs", headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (401, "authentication_failed")
