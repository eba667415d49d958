"""The requests that other tools send to OpenPAI: NNI, its Python SDK, its portal's scripts."""

from __future__ import annotations

import json

import pytest
from rest_framework.test import APIClient
from tests.support.jobs_world import job_file, placed
from tests.support.openpai_api import Pai, refused
from tests.support.platform_factories import PASSWORD, make_user

from skep_platform.storage import services as storage

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]
V1, V2 = "/rest-server/api/v1", "/rest-server/api/v2"


def trial(vc, name):
    """A job as NNI writes it: no completion by success, a storage by name."""
    return {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "jobRetryCount": 0,
        "prerequisites": [
            {"type": "dockerimage", "uri": "msranni/nni:v2", "name": "docker_image_0"}
        ],
        "taskRoles": {
            "taskrole": {
                "instances": 1,
                "completion": {"minFailedInstances": 1, "minSucceededInstances": -1},
                "taskRetryCount": 0,
                "dockerImage": "docker_image_0",
                "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 8192},
                "commands": ["python3 -m nni.tools.trial_tool.trial_runner"],
            }
        },
        "extras": {"storages": [{"name": "experiments"}], "submitFrom": "submit-job-v2"},
        "defaults": {"virtualCluster": vc.name},
    }


def test_nni_logs_in_submits_trials_follows_and_stops_them(alice, vc, node):
    root = make_user("root", admin=True)
    made = storage.create(root, "experiments", "host_path", {"path": "/srv/nni"})
    storage.grant(root, made, "vision")
    nni = APIClient()
    body = {"username": "alice", "password": PASSWORD}
    token = nni.post(f"{V1}/token", body, format="json").json()["token"]
    nni.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    names = ["nni_exp_AbC12dEf_trial_x1Y2z", "nni_exp_AbC12dEf_env_Q9w8E"]
    early = nni.get(f"{V2}/jobs/alice~{names[0]}")  # it asks before the first one is there
    assert early.status_code == 404
    for name in names:
        file = json.dumps(trial(vc, name))
        assert nni.generic("POST", f"{V2}/jobs", file, content_type="text/yaml").status_code == 202
    status = nni.get(f"{V2}/jobs/alice~{names[0]}").json()["jobStatus"]
    assert (status["state"], status["appLaunchedTime"]) == ("WAITING", None)
    assert status["appTrackingUrl"].startswith("http")
    listed = {job["name"]: job["state"] for job in nni.get(f"{V2}/jobs?username=alice").json()}
    assert listed == dict.fromkeys(names, "WAITING")
    for name in names:
        address = f"{V2}/jobs/alice~{name}/executionType"
        assert nni.put(address, {"value": "STOP"}, format="json").status_code == 202
    status = nni.get(f"{V2}/jobs/alice~{names[0]}").json()["jobStatus"]
    assert status["state"] == "STOPPED"
    assert isinstance(status["completedTime"], int)
    page = nni.get(f"/job-detail.html?username=alice&jobName={names[0]}")
    assert page.status_code == 302


def test_the_python_sdk_submits_by_both_versions_and_waits(alice, vc, node):
    sdk = APIClient()
    body = {"username": "alice", "password": PASSWORD, "expiration": 3600}
    token = sdk.post(f"{V1}/token", body, format="json").json()["token"]
    sdk.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    file = json.dumps(job_file(vc, name="by-sdk"))
    answer = sdk.generic("POST", f"{V2}/jobs", file, content_type="text/yaml")
    assert answer.status_code in (201, 202)
    placed(alice, vc, name="ran")
    assert {job["name"] for job in sdk.get(f"{V1}/user/alice/jobs").json()} == {"by-sdk", "ran"}
    for name, state in (("by-sdk", "WAITING"), ("ran", "WAITING")):
        assert sdk.get(f"{V1}/user/alice/jobs/{name}").json()["jobStatus"]["state"] == state
    assert sdk.get(f"{V1}/user/alice/jobs/by-sdk/config").json()["name"] == "by-sdk"
    assert refused(sdk.get(f"{V1}/user/alice/jobs/by-sdk/ssh")) == (404, "NoJobSshInfoError")


def test_the_marketplace_asks_who_a_token_is_and_reads_job_files(alice, vc):
    mine = Pai(alice)
    file = json.dumps(job_file(vc, name="shared"))
    assert mine.post("/jobs", file, "yaml").status_code == 202
    assert mine.get("/tokens/check").json()["username"] == "alice"
    user = mine.get("/users/alice").json()
    assert (user["admin"], user["grouplist"]) == (False, [])
    assert mine.get("/groups").json() == []
    asked = {"username": "alice", "order": "submissionTime,DESC", "limit": 10, "offset": 0}
    page = mine.get("/jobs", **asked, withTotalCount="true").json()
    assert (page["totalCount"], page["data"][0]["name"]) == (1, "shared")
    assert b"shared" in mine.get("/jobs/alice~shared/config").content


def test_a_bound_cluster_takes_a_job_that_another_one_sends(alice, vc):
    """OpenPAI's portal sends a job to another cluster: it looks at the virtual clusters and SKUs
    there, submits, and tags."""
    there = Pai(alice)
    assert "vision" in there.get("/virtual-clusters").json()
    assert there.get("/cluster/sku-types", vc="vision").status_code == 200
    file = json.dumps(job_file(vc, name="moved"))
    assert there.post("/jobs", file, "yaml").status_code == 202
    tag = "pai-transferred-from-old-url-http://old.example.org/job-detail.html"
    assert there.put("/jobs/alice~moved/tag", {"value": tag}).status_code in (200, 400)


def test_an_alert_handler_stops_tags_and_counts_by_the_token_of_an_admin(alice, vc, node):
    placed(alice, vc, name="idle")
    root = Pai(make_user("root", admin=True))
    assert root.get("/users/alice").json()["email"] == alice.email
    assert root.put("/jobs/alice~idle/tag", {"value": "by-alert-handler"}).status_code == 200
    listed = root.get("/jobs", tagsContain="by-alert-handler", state="RUNNING,WAITING").json()
    assert [job["name"] for job in listed] == ["idle"]
    stop = root.put("/jobs/alice~idle/executionType", {"value": "STOP"})
    assert stop.status_code == 202
    assert root.get("/virtual-clusters").json()["vision"]["resourcesTotal"]["gpu"] == 8
