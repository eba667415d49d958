"""What people type: `curl` against a running server, in the order of OpenPAI's manual."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from tests.support.jobs_world import job_file
from tests.support.platform_factories import PASSWORD, make_user, make_vc

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.support.openpai_urls"),
]


@pytest.fixture
def curl(live_server, tmp_path):
    """Runs curl below the address of the API; returns (status, body)."""
    if not shutil.which("curl"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("curl is not installed")

    def run(path, *arguments, token=""):
        sent = ("-H", f"Authorization: Bearer {token}") if token else ()
        address = f"{live_server.url}/rest-server/api/{path}"
        done = subprocess.run(
            ["curl", "-sS", "-w", "\n%{http_code}", *sent, *arguments, address],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=tmp_path,
        )
        body, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(body) if body[:1] in ("{", "[") else body

    return run


def test_the_lines_of_the_manual(curl, tmp_path):
    alice = make_user("alice")
    make_user("root", admin=True)
    vc = make_vc("vision", quotas={"A100": 64}, members=[alice])
    as_form = ("-H", "Content-Type: application/x-www-form-urlencoded", "-X", "POST")
    login = (*as_form, "-d", "username=alice", "-d", f"password={PASSWORD}")
    status, body = curl("v1/token", *login)
    assert (status, body["user"], body["admin"]) == (200, "alice", False)
    assert curl("v2/authn/basic/login", *login, "-d", "expiration=604800")[0] == 200
    token = body["token"]

    (tmp_path / "job.yaml").write_text(json.dumps(job_file(vc, name="by-curl"), indent=1))
    yaml = ("-H", "Content-Type: text/yaml", "-X", "POST", "--data-binary", "@job.yaml")
    assert curl("v2/jobs", *yaml, token=token)[0] == 202
    # Without a type, curl says that it is a form.
    plain = ("-X", "POST", "--data-binary", "@job.yaml")
    assert curl("v2/jobs", *plain, token=token)[1]["code"] == "InvalidParametersError"
    old = {"jobName": "old", "image": "a/b", "virtualCluster": "vision"}
    old["taskRoles"] = [{"name": "main", "taskNumber": 1, "gpuNumber": 1, "command": "true"}]
    (tmp_path / "exampleJob.json").write_text(json.dumps(old, indent=1))
    as_json = ("-H", "Content-Type: application/json")
    sent = (*as_json, "-X", "POST", "-d", "@exampleJob.json")
    assert curl("v1/user/alice/jobs", *sent, token=token)[0] == 202

    status, jobs = curl("v2/jobs?state=WAITING&order=jobName,ASC&limit=10", token=token)
    assert (status, [job["name"] for job in jobs]) == (200, ["by-curl", "old"])
    assert len(curl("v1/user/alice/jobs", token=token)[1]) == 2
    assert curl("v1/user/alice/jobs/old", token=token)[1]["jobStatus"]["state"] == "WAITING"
    assert curl("v2/jobs/alice~by-curl", token=token)[0] == 200
    assert "by-curl" in str(curl("v2/jobs/alice~by-curl/config", token=token)[1])
    stop = (*as_json, "-X", "PUT", "-d", '{"value": "STOP"}')
    assert curl("v2/jobs/alice~by-curl/executionType", *stop, token=token)[0] == 202
    assert curl("v1/user/alice/jobs/old/executionType", *stop, token=token)[0] == 202

    # The virtual clusters and storages of a group, as the manual sets them.
    form = (*as_form, "-d", "username=root", "-d", f"password={PASSWORD}")
    root = curl("v1/token", *form)[1]["token"]
    make = (*as_json, "-X", "POST", "-d", '{"groupname": "research", "extension": {"acls": {}}}')
    assert curl("v2/groups", *make, token=root)[0] == 201
    group = curl("v2/groups/research", token=root)[1]
    group["extension"]["acls"]["virtualClusters"] = ["vision"]
    change = json.dumps({"data": {k: group[k] for k in ("groupname", "extension")}, "patch": True})
    assert curl("v2/groups", *as_json, "-X", "PUT", "-d", change, token=root)[0] == 201
    found = curl("v2/groups/research", token=root)[1]
    assert found["extension"]["acls"]["virtualClusters"] == ["vision"]
    assert curl("v2/users/alice", token=token)[1]["virtualCluster"] == ["vision"]
    assert curl("v2/authn/basic/logout", "-X", "DELETE", token=token)[0] == 200
    assert curl("v2/jobs", token=token)[0] == 401
