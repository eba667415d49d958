"""Secrets, from the job file to the sealed row: they are in nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api
from tests.support.platform_factories import make_user, make_vc

from skep_platform.core import encryption
from skep_platform.jobs import services
from skep_platform.jobs.models import Job, JobSecrets

pytestmark = pytest.mark.django_db

SECRET = "pl4nted-S3cret"
YAML_FILE = f"""\
protocolVersion: 2
name: train
type: job
prerequisites:
  - type: dockerimage
    name: image
    uri: registry.example/private:1
    auth: {{username: u, password: <% $secrets.deep.password %>}}
parameters: {{token: "<% $secrets.token %>"}}
secrets:
  token: {SECRET}
  deep:
    password: "{SECRET}/registry"
  key: |
    -----BEGIN
    {SECRET}
    -----END
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands:
      - login <% $parameters.token %>
defaults: {{virtualCluster: vision}}
extras:
  skep:
    environment: {{TOKEN: "<% $secrets.token %>", PLAIN: "1"}}
"""


@pytest.fixture
def alice():
    user = make_user("alice")
    make_vc("vision", quotas={"A100": 16}, members=[user])
    return user


def json_file() -> str:
    data = job_file("vision", name="train", commands=["login <% $secrets.token %>"])
    data["secrets"] = {"token": SECRET}
    data["prerequisites"][0]["auth"] = {"username": "u", "password": SECRET}
    return json.dumps(data)


def rows() -> str:
    """All that the database knows, but for what is sealed."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT row_to_json(t)::text FROM "{table}" t')
            found += [row for (row,) in cursor.fetchall()]
    return "\n".join(found)


@pytest.mark.parametrize("text", [YAML_FILE, json_file()], ids=["YAML", "JSON"])
def test_a_secret_is_in_no_row_and_no_answer(alice, text, caplog):
    api = Api(alice)
    answers = [
        api.client.post("/api/v1/jobs", text, content_type="text/yaml", HTTP_IDEMPOTENCY_KEY="k"),
        api.client.post("/api/v1/jobs", text, content_type="text/yaml", HTTP_IDEMPOTENCY_KEY="k"),
        api.client.post("/api/v1/jobs/check", text, content_type="text/yaml"),
    ]
    assert [a.status_code for a in answers] == [201, 201, 200], answers[0].content
    job = answers[0].json()
    paths = ["", "/tasks", "/events", "/attempts"]
    answers += [api.get(f"/jobs/{job['id']}{path}") for path in paths] + [api.get("/jobs")]
    answers.append(api.post(f"/jobs/{job['id']}/clone"))
    for answer in answers:
        assert SECRET not in answer.content.decode()
    assert SECRET not in rows()
    assert SECRET not in caplog.text
    assert '"******"' in job["spec_text"]
    assert "<% $secrets.token %>" in job["task_roles"][0]["command"]


def test_what_containers_and_registries_need_is_sealed(alice):
    job = services.submit(alice, YAML_FILE)
    sealed = bytes(JobSecrets.objects.get(job=job).sealed)
    assert SECRET.encode() not in sealed
    known = json.loads(encryption.open(sealed))
    assert known["secrets"]["key"] == f"-----BEGIN\n{SECRET}\n-----END\n"
    assert known["auths"] == {
        "registry.example/private:1": {
            "username": "u",
            "password": f"{SECRET}/registry",
            "registry": "https://index.docker.io/v1/",
        }
    }
    job = Job.objects.get(pk=job.pk)
    assert job.environment == {"TOKEN": "<% $secrets.token %>", "PLAIN": "1"}
    assert job.roles.get().command == "login <% $secrets.token %>"


def test_a_job_without_secrets_has_nothing_sealed(alice):
    job = services.submit(alice, json.dumps(job_file("vision")))
    assert not JobSecrets.objects.filter(job=job).exists()


BROKEN: dict[str, Any] = {
    "a bad field beside it": YAML_FILE.replace("cpu: 1", "cpu: x"),
    "a secret where none belongs": YAML_FILE.replace("secrets:\n", "secrets:\n  - "),
    "no secrets but a text": YAML_FILE.replace("secrets:\n", "secrets: " + SECRET + "\nx:\n"),
    "an open quote": YAML_FILE.replace(f'"{SECRET}/', f'"{SECRET}/"'),
    "an alias": YAML_FILE.replace(f"token: {SECRET}", f"token: *{SECRET}"),
    "a tag": YAML_FILE.replace(f"token: {SECRET}", f"token: !{SECRET} x"),
    "a tag of a handle": YAML_FILE.replace(f"token: {SECRET}", f"token: !{SECRET}!x y"),
    "two of a name": YAML_FILE.replace("  deep:", f"  token: {SECRET}\n  deep:"),
    "a bad template in a login": YAML_FILE.replace("<% $secrets.deep.password %>", f"<% {SECRET}"),
    "no space behind its name": YAML_FILE.replace("  token: pl4", "  token:pl4"),
    "a wrong auth": YAML_FILE.replace("{username: u, password: <% $secrets.deep.password %>}",
                                      SECRET),
    "broken JSON": json_file().replace('"protocolVersion": 2', '"protocolVersion": 2,,'),
    "JSON with a secret twice": json_file().replace('"token"', f'"token": "{SECRET}", "token"'),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_no_error_repeats_a_secret(alice, case, caplog):
    api = Api(alice)
    for path in ("/jobs", "/jobs/check"):
        text = BROKEN[case]
        answer = api.client.post(f"/api/v1{path}", text, content_type="text/yaml")
        assert answer.status_code in (200, 400)
        assert SECRET not in answer.content.decode()
    assert SECRET not in caplog.text
    assert Job.objects.count() == 0


def test_the_digest_of_an_idempotent_submit_reveals_nothing_without_the_key(alice, settings):
    first = services.submit(alice, json_file(), client_token="t")
    assert services.submit(alice, json_file(), client_token="t").pk == first.pk
    digest = Job.objects.get(pk=first.pk).spec_digest
    settings.SECRET_KEY = "another" * 10
    from skep_platform.jobs.submission.submitting import digest_of

    assert len(digest) == 64
    assert digest_of(json_file()) != digest
