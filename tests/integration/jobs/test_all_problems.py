"""What is wrong with a job file: all of it at once, and no secret in what is stored or shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.jobs_world import job_file, submit
from tests.support.platform_api import Api

from skep_jobfile import InvalidJobFile, parse
from skep_platform.jobs import services
from skep_platform.jobs.models import Job, TaskRole

pytestmark = pytest.mark.django_db

SEVEN = """\
protocolVersion: 2
name: seven
type: job
jobRetryCount: many
prerequisites:
  - {type: dockerimage, name: image, uri: "not an image!"}
taskRoles:
  worker:
    instances: 1
    dockerImage: imag
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: ["echo <% $parameters.x"]
    comands: [again]
  second:
    dockerImage: image
    resourcePerInstance: {cpu: 0, memoryMB: 1024, gpu: 0}
    commands: ["true"]
defaults: {virtualCluster: nowhere}
extras: {tags: ["!"]}
"""


def codes(user, text: str) -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in services.check(user, text).errors]


def test_finding_u25_seven_mistakes_are_reported_in_the_first_round(alice, vc):
    assert codes(alice, SEVEN) == [
        ("invalid_value", "jobRetryCount"),
        ("invalid_value", "prerequisites[0].uri"),
        ("unknown_docker_image", "taskRoles.worker.dockerImage"),
        ("invalid_template", "taskRoles.worker.commands"),
        ("unknown_field", "taskRoles.worker.comands"),
        ("invalid_value", "taskRoles.second.resourcePerInstance.cpu"),
        ("unknown_virtual_cluster", "defaults.virtualCluster"),
        ("invalid_tag", "extras.tags[0]"),
    ]


def test_finding_u25_a_submit_reports_as_many_as_a_check(alice, vc):
    answer = Api(alice).client.post("/api/v1/jobs", SEVEN, content_type="application/yaml")
    assert answer.json()["code"] == "invalid_job"
    reported = [(e["code"], e["path"]) for e in answer.json()["details"]["errors"]]
    assert reported == codes(alice, SEVEN)


def test_finding_u25_what_is_mended_for_further_checks_is_never_stored(alice, vc):
    file = job_file(vc)
    file["taskRoles"]["worker"]["instances"] = "three"
    answer = Api(alice).post("/jobs", file)
    assert answer.status_code == 400
    assert not Job.objects.exists()


MISTAKES = {
    "retry": lambda f: f.update(jobRetryCount="x"),
    "unknown": lambda f: f.update(nonsense=1),
    "type": lambda f: f.pop("type"),
    "vc": lambda f: f.update(defaults={"virtualCluster": "nowhere"}),
    "template": lambda f: f["taskRoles"]["worker"].update(commands=["<% x"]),
    "image": lambda f: f["taskRoles"]["worker"].update(dockerImage="none"),
    "cpu": lambda f: f["taskRoles"]["worker"]["resourcePerInstance"].update(cpu=-1),
    "tag": lambda f: f["extras"].update(tags=["!"]),
    "uri": lambda f: f["prerequisites"][0].update(uri="not an image"),
}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.sampled_from(sorted(MISTAKES)), min_size=1))
def test_finding_u25_any_mistakes_together_are_at_least_as_many_problems(alice, vc, chosen):
    file = job_file(vc, name="several")
    for name in sorted(chosen):
        MISTAKES[name](file)
    found = codes(alice, json.dumps(file))
    # Whether a reference is right is not reported of a role whose image is unknown.
    assert len(found) >= len(chosen) - ({"image", "uri"} <= chosen), (chosen, found)


URLS = [
    "https://alice:s3cret-token@github.com/x/y.git",
    "https://ghp_s3cret-token@github.com/x/y.git",
    "http://:s3cret-token@host/x",
    "ssh://git:s3cret-token@host/x",
    "<% $parameters.url %>",
]


@pytest.mark.parametrize("url", URLS)
def test_finding_s13_credentials_in_addresses_are_refused(alice, vc, url):
    git = {"url": url, "commit": "a" * 40}
    file = job_file(vc, skep={"workingFiles": {"git": git}})
    file["parameters"] = {"url": "https://alice:s3cret-token@github.com/x/y.git"}
    found = services.check(alice, json.dumps(file)).errors
    if "$parameters" in url:  # an address begins with its scheme
        file["extras"]["skep"]["workingFiles"]["git"]["url"] = "https://<% $parameters.u %>@h/x"
        file["parameters"] = {"u": "alice:s3cret-token"}
        found = services.check(alice, json.dumps(file)).errors
    assert "credentials_in_url" in {problem.code for problem in found}
    assert not any("s3cret" in problem.message for problem in found)


def test_finding_s13_other_addresses_are_looked_at_too(alice, vc):
    file = job_file(vc)
    file["prerequisites"].append({"type": "data", "name": "d", "uri": ["http://u:s3cret@h/x"]})
    (problem,) = services.check(alice, json.dumps(file)).errors
    assert (problem.code, problem.path) == ("credentials_in_url", "prerequisites[1].uri")


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/x/y.git",
        "ssh://git@github.com/x/y.git",
        "https://<% $secrets.user %>:<% $secrets.token %>@github.com/x/y.git",
        "https://<% $secrets.token %>@github.com/x/y.git",
        "https://github.com/@scope/y.git",
    ],
)
def test_finding_s13_addresses_without_credentials_are_taken(alice, vc, url):
    file = job_file(vc, skep={"workingFiles": {"git": {"url": url, "commit": "a" * 40}}})
    file["secrets"] = {"user": "alice", "token": "s3cret-token"}
    assert services.check(alice, json.dumps(file)).valid


def test_finding_s13_what_was_stored_before_is_masked(alice, vc):
    git = {"url": "https://github.com/x/y.git", "commit": "a" * 40}
    job = submit(alice, vc, skep={"workingFiles": {"git": git}})
    shown = "https://alice:s3cret-token@github.com/x/y.git"
    job.spec["extras"]["skep"]["workingFiles"]["git"]["url"] = shown
    command = TaskRole.objects.get(job=job).command
    TaskRole.objects.filter(job=job).update(command=command.replace(git["url"], shown))
    Job.objects.filter(pk=job.pk).update(
        spec=job.spec, spec_text=job.spec_text.replace(git["url"], shown)
    )
    answer = Api(alice).get(f"/jobs/{job.pk}")
    assert "s3cret" not in answer.content.decode()
    assert answer.json()["git"]["url"] == "https://******@github.com/x/y.git"


FOLDERS = [
    *("//proc/self/fd/8", "/./proc/self", "///proc", "/.//sys", "//dev/./shm", "/run//skep/x"),
    *("/proc", "/proc/", "/a/../proc", "//", "/.", "proc"),
]


@pytest.mark.parametrize("folder", FOLDERS)
def test_finding_s21_folders_of_the_system_are_refused_however_they_are_written(vc, folder):
    with pytest.raises(InvalidJobFile):
        parse(json.dumps(job_file(vc, skep={"workDir": folder})))


def test_finding_s21_other_folders_are_taken_as_the_kernel_reads_them(vc):
    job, _ = parse(json.dumps(job_file(vc, skep={"workDir": "//work/./a//b/"})))
    assert job.extras.skep.work_dir == "/work/a/b"
