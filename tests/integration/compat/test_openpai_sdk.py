"""OpenPAI's own JavaScript SDK and its command `pai` against a running server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.jobs_world import job_file, placed
from tests.support.platform_factories import PASSWORD, make_node, make_user, make_vc

from skep_platform.accounts.services import create_token
from skep_platform.storage import services as storage

CLIENTS = Path(__file__).parents[2] / "clients"
PAI = CLIENTS / "node_modules/@microsoft/openpai-js-sdk/lib/src/cli.js"
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.support.openpai_urls"),
]


@pytest.fixture
def sdk():
    if not PAI.exists():
        message = "OpenPAI's SDK is not installed: npm ci --prefix tests/clients"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
    return PAI


@pytest.fixture
def team():
    alice, root = make_user("alice"), make_user("root", admin=True)
    vc = make_vc("vision", quotas={"A100": 64}, members=[alice])
    made = storage.create(root, "team", "host_path", {"path": "/srv/team"})
    storage.grant(root, made, "vision")
    make_node("gpu-1", gpus=8)
    return alice, vc


def node(script, *arguments, **environment):
    done = subprocess.run(
        ["node", str(script), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done


REFUSED = {
    "authn.wrongPassword": "IncorrectPasswordError",
    "job.again": "ConflictJobError",
    "job.missing": "NoJobError",
    "kubernetes.forbidden": "ForbiddenUserError",
    "job.getTaskLogs": "NoTaskLogError",  # it never ran
    "authn.after": "UnauthorizedUserError",
    "job.createRunningJob": "NoVirtualClusterError",
    "v1.job.listWithoutToken": "UnauthorizedUserError",  # version 1 sends none with what it reads
    "v1.job.getSshInfo": "NoJobSshInfoError",
    "v1.job.delete": "NotImplementedError",  # jobs are stopped
    "v1.job.revoked": "UnauthorizedUserError",
}
# Methods that send no request to a cluster.
LOCAL = {
    "v2 CacheClient.setDaysToExpire",
    "v2 CacheClient.uidOf",
    "v2 StorageNodeV2.storageConfigDispatcher",  # reads Azure itself
}


def test_every_method_of_the_sdk_gets_its_answer(sdk, team, live_server):
    script = CLIENTS / "openpai_sdk.cjs"
    done = node(script, PAI_URI=live_server.url, PAI_PASSWORD=PASSWORD)
    printed = json.loads(done.stdout[done.stdout.index("{") :])
    assert len(printed["methods"]) > 50
    assert set(printed["methods"]) - set(printed["called"]) == LOCAL
    found = printed["found"]
    refused = {name: one["error"] for name, one in found.items() if "error" in one}
    assert {name: error["code"] for name, error in refused.items()} == REFUSED
    value = {name: one["value"] for name, one in found.items() if "value" in one}
    assert value["job.createJob"]["status"] == 202
    assert [job["name"] for job in value["job.listJobs"]] == ["one"]
    assert value["job.counted"]["totalCount"] == 1
    assert value["job.getJobConfig"]["name"] == "one"
    assert value["job.stopped"]["jobStatus"]["state"] == "STOPPED"
    assert value["storage.getStorages"]["storages"][0]["name"] == "team"
    assert value["token.createApplicationToken"]["application"] is True
    assert value["virtualCluster.getVirtualCluster"]["resourcesTotal"]["gpu"] == 8
    assert value["group.getGroupMembers"] == [{"username": "bob", "clusterAdmin": False}]
    assert value["v1.clusterInfo"]["launcherType"] == "k8s"
    assert value["v1.login"]["user"] == "alice"
    assert value["v1.authn.info"]["authn_type"] == "basic"
    assert len(value["v1.authn.getTokens"]["tokens"]) >= 2
    assert {job["name"] for job in value["v1.job.list"]} == {"one", "old-one"}
    assert value["v1.job.get"]["jobStatus"]["state"] == "STOPPED"
    assert value["v1.job.getConfig"]["name"] == "one"
    assert value["kubernetes.getK8sNodes"]["items"][0]["metadata"]["name"] == "gpu-1"


def test_the_command_pai_submits_lists_and_shows_jobs(sdk, team, live_server, tmp_path):
    alice, vc = team
    placed(alice, vc, name="runs")
    token = create_token(alice, "pai")[1]
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(job_file(vc, name="by-pai")))

    def pai(*words):
        return node(sdk, *words, HOME=str(tmp_path)).stdout

    pai("addc", live_server.url, "alice", token, "--alias", "skep")
    assert "skep" in pai("listc")
    pai("subj", "skep", str(file))
    listed = pai("listj", "skep")
    assert "by-pai" in listed
    assert "runs" in listed
    assert '"name": "by-pai"' in pai("getj", "skep", "by-pai")
