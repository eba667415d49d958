"""Jobs as version 1 of OpenPAI describes them, by its own routes."""

from __future__ import annotations

import json

import pytest
from tests.support.openpai_api import Pai, refused

from skep_platform.jobs.models import Job, TaskRole

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]
ROUTE = "/rest-server/api/v1/user/alice/jobs"
FORM = "application/x-www-form-urlencoded"


def old(**changes):
    roles = [
        {"name": "ps", "taskNumber": 1, "cpuNumber": 2, "memoryMB": 2048, "command": "serve"},
        {
            "name": "worker",
            "taskNumber": 2,
            "cpuNumber": 4,
            "memoryMB": 8192,
            "gpuNumber": 1,
            "shmMB": 512,
            "minSucceededTaskCount": 1,
            "command": "train --fast",
            "portList": [{"label": "web", "beginAt": 8080, "portNumber": 2}],
        },
    ]
    return {
        "jobName": "old",
        "image": "pai/tf:1",
        "virtualCluster": "vision",
        "taskRoles": roles,
        **changes,
    }


@pytest.fixture
def send(alice, vc):
    client = Pai(alice).client

    def post(body, kind="application/json", route=ROUTE):
        text = body if isinstance(body, str) else json.dumps(body)
        return client.generic("POST", route, text, content_type=kind)

    return post


def test_a_job_of_version_1_runs_as_one_of_version_2(send):
    answer = send(old(retryCount=3, dataDir="hdfs://a/b", jobEnvs={"EPOCHS": 3}))
    assert answer.status_code == 202, answer.content
    job = Job.objects.get(name="old")
    assert (job.vc.name, job.spec["jobRetryCount"]) == ("vision", 3)
    ps, worker = TaskRole.objects.filter(job=job).order_by("position")
    assert (ps.instances, ps.gpus, ps.memory_mb, ps.image) == (1, 0, 2048, "pai/tf:1")
    assert (worker.instances, worker.gpus, worker.cpu_millis) == (2, 1, 4000)
    assert (worker.min_succeeded, worker.ports["web"]) == (1, 2)
    commands = job.spec["taskRoles"]["worker"]["commands"]
    exports = ["export PAI_DATA_DIR=hdfs://a/b", "export EPOCHS=3"]
    assert commands == [*exports, "train --fast"]


def test_its_form_has_brackets_for_what_is_inside(send):
    form = (
        "jobName=by-form&image=pai%2Ftf&virtualCluster=vision&codeDir="
        "&taskRoles[0][name]=worker&taskRoles[0][taskNumber]=2&taskRoles[0][gpuNumber]=1"
        "&taskRoles[0][command]=echo%20%24HOME"
    )
    assert send(form, FORM).status_code == 202
    role = TaskRole.objects.get(job__name="by-form")
    assert (role.instances, role.gpus) == (2, 1)


def test_the_routes_of_version_1_also_take_files_of_version_2(send, vc):
    for route in (ROUTE, "/rest-server/api/v1/jobs"):
        answer = send("protocolVersion: 2\nname: jobName", "text/yaml", route)
        assert refused(answer) == (400, "InvalidProtocolError")
    assert send(old(jobName="direct"), route="/rest-server/api/v1/jobs").status_code == 202


@pytest.mark.parametrize(
    "wrong",
    [
        old(authFile="hdfs://secret"),
        old(killAllOnCompletedTaskNumber=1),
        old(jobEnvs={"A;reboot": "1"}),
        old(taskRoles=[{"name": "a", "command": "x"}, {"name": "a", "command": "y"}]),
        old(taskRoles="worker"),
        old(taskRoles=[{"name": "a"}]),
        old(taskRoles=[{"name": "a", "command": "x", "taskNumber": -1}]),
        old(image=None),
        '{"jobName": "a"',
        '{"jobName": ' + "[" * 100_000,
        '["jobName"]',
    ],
)
def test_what_cannot_be_taken_over_is_refused_with_a_sentence(send, wrong):
    answer = send(wrong)
    assert answer.status_code == 400
    assert refused(answer)[1] in ("InvalidProtocolError", "InvalidParametersError")
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "form", ["", "a", "jobName[a]=1&jobName=2", "jobName=a&jobName[b]=1", "[[]]=1", "&" * 20_000]
)
def test_a_broken_form_is_refused_with_a_sentence(send, form):
    assert send(form, FORM).status_code == 400
