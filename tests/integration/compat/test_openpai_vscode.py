"""The requests that the extension for VS Code 0.3.2 sends, one after the other."""

from __future__ import annotations

import json

import pytest
from rest_framework.test import APIClient
from tests.support.jobs_world import job_file
from tests.support.platform_factories import PASSWORD, make_user

from skep_platform.storage import services as storage

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]
SERVER = "/rest-server/api"


def test_the_extension_logs_in_submits_and_shows_jobs_and_storages(alice, vc):
    root = make_user("root", admin=True)
    made = storage.create(root, "team", "host_path", {"path": "/srv/team"})
    storage.grant(root, made, "vision")
    code = APIClient()
    assert code.get("/healthz").status_code == 200
    probe = code.get(f"{SERVER}/v2/jobs/protocolversion/config").json()
    assert probe["code"] != "NoApiError"  # it takes the cluster for one of version 2
    assert code.get(f"{SERVER}/v2/info").json()["authnMethod"] == "basic"
    form = f"username=alice&password={PASSWORD}&expiration=604800"
    kind = "application/x-www-form-urlencoded"
    login = code.generic("POST", f"{SERVER}/v1/token", form, content_type=kind).json()
    code.credentials(HTTP_AUTHORIZATION=f"Bearer {login['token']}")
    made = code.post(f"{SERVER}/v2/tokens/application", {}, format="json").json()
    code.credentials(HTTP_AUTHORIZATION=f"Bearer {made['token']}")
    absent = code.get(f"{SERVER}/v1/user/alice/jobs/by-code")
    assert absent.json()["code"] == "NoJobError"
    file = json.dumps(job_file(vc, name="by-code"))
    answer = code.generic("POST", f"{SERVER}/v2/jobs", file, content_type="text/yaml")
    assert answer.status_code == 202
    (job,) = code.get(f"{SERVER}/v2/jobs").json()
    assert (job["name"], job["username"]) == ("by-code", "alice")
    detail = code.get(f"{SERVER}/v2/jobs/alice~by-code").json()
    assert detail["jobStatus"]["state"] == "WAITING"
    (listed,) = code.get(f"{SERVER}/v2/storages").json()["storages"]
    assert code.get(f"{SERVER}/v2/storages/{listed['name']}").json()["name"] == "team"
    page = code.get("/job-detail.html?username=alice&jobName=by-code")
    assert page.headers["Location"].startswith("/jobs")
