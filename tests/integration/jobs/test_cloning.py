"""Clones, tags, and job files out of other formats."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.at_once import at_once, codes, just_before
from tests.support.jobs_world import job_file, submit
from tests.support.platform_api import Api
from tests.support.platform_factories import make_user, make_vc

from skep_platform.core import encryption
from skep_platform.core.errors import Conflict
from skep_platform.files.models import Archive
from skep_platform.jobs import queries, services
from skep_platform.jobs.models import Job, JobFiles, JobSecrets
from skep_platform.jobs.submission.attachments import forget_archives

pytestmark = pytest.mark.django_db

DIGEST = "a" * 64


@pytest.fixture
def vc(alice):
    return make_vc("vision", quotas={"A100": 16}, members=[alice])


@pytest.fixture
def archive(alice):
    return Archive.objects.create(owner=alice, sha256=DIGEST, size=10, unpacked_size=20, files=1)


def secret_job(vc, **changes):
    spec = job_file(vc, name="train", commands=["login <% $secrets.p %>"], **changes)
    spec["secrets"] = {"p": "S3cret-value"}
    spec["prerequisites"][0]["auth"] = {"username": "u", "password": "<% $secrets.p %>"}
    spec["extras"]["skep"] = {"workingFiles": {"archive": f"sha256:{DIGEST}", "path": "/code"}}
    spec["extras"]["tags"] = ["first"]
    return spec


def test_a_clone_has_the_secrets_files_and_tags_of_its_source(alice, vc, archive):
    source = services.submit(alice, json.dumps(secret_job(vc)))
    services.set_tags(alice, source.pk, ["changed", "b/c", "changed"])
    clone = services.clone(alice, source.pk)
    clone = Job.objects.get(pk=clone.pk)
    assert (clone.name, clone.tags, clone.work_dir) == ("train-2", ["changed", "b/c"], "/code")
    assert clone.spec["name"] == json.loads(clone.spec_text)["name"] == "train-2"
    opened = json.loads(encryption.open(JobSecrets.objects.get(job=clone).sealed))
    assert opened["secrets"] == {"p": "S3cret-value"}
    assert opened["auths"]["test/image:1"]["password"] == "S3cret-value"
    assert JobFiles.objects.get(job=clone).archive == archive
    assert clone.roles.get().command == "login <% $secrets.p %>"


def test_clones_of_clones_are_numbered(alice, vc):
    source = submit(alice, vc, name="train-v")
    names = [services.clone(alice, source.pk).name for _ in range(2)]
    again = services.clone(alice, Job.objects.get(name=names[-1]).pk)
    assert [*names, again.name] == ["train-v-2", "train-v-3", "train-v-4"]


def test_a_clone_may_be_given_a_name_but_not_a_taken_one(alice, vc):
    source, api = submit(alice, vc, name="mine"), Api(alice)
    assert api.post(f"/jobs/{source.pk}/clone", {"name": "yours"}).json()["name"] == "yours"
    answer = api.post(f"/jobs/{source.pk}/clone", {"name": "yours"})
    assert (answer.status_code, answer.json()["code"]) == (409, "job_name_taken")
    answer = api.post(f"/jobs/{source.pk}/clone", {"name": "a b"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_job")


@pytest.mark.parametrize(
    ("path", "body"),
    [("clone", {}), ("run-again", {"elsewhere": True})],
    ids=["clone", "run again"],
)
def test_an_idempotency_key_makes_a_clone_repeatable(alice, vc, path, body):
    source, api = submit(alice, vc, name="mine"), Api(alice)

    def ask(key: str, **changes: object):
        return api.post(f"/jobs/{source.pk}/{path}", body | changes, HTTP_IDEMPOTENCY_KEY=key)

    answers = [ask("k1") for _ in range(3)]
    assert [(one.status_code, one.json()["name"]) for one in answers] == [(201, "mine-2")] * 3
    assert Job.objects.count() == 2
    refused = ask("k1", name="other")
    assert (refused.status_code, refused.json()["code"]) == (409, "client_token_reused")
    assert ask("x" * 65).json()["code"] == "client_token_invalid"
    assert ask("k2").json()["name"] == "mine-3"


@pytest.mark.django_db(transaction=True)
def test_a_clone_that_is_sent_twice_at_once_is_one_job(alice, vc):
    source = submit(alice, vc, name="mine")
    ends = at_once(*[lambda: services.clone(alice, source.pk, client_token="k1").pk] * 4)
    assert len(set(ends)) == 1
    assert Job.objects.count() == 2


def test_only_the_owner_gets_secrets_by_a_clone(alice, vc, archive):
    source = services.submit(alice, json.dumps(secret_job(vc)))
    answer = Api(make_user("root", admin=True)).post(f"/jobs/{source.pk}/clone", {})
    assert (answer.status_code, answer.json()["code"]) == (403, "may_not_clone")


@pytest.mark.parametrize("few", [0, queries.FEW])
def test_jobs_are_found_by_all_of_the_tags_asked_for(alice, vc, few, monkeypatch):
    monkeypatch.setattr(queries, "FEW", few)  # more of them are found in another way
    api = Api(alice)
    jobs = [submit(alice, vc, name=name) for name in ("one", "two")]
    for job, tags in zip(jobs, (["a", "b"], ["a"]), strict=True):
        answer = api.put(f"/jobs/{job.pk}/tags", {"tags": tags})
        assert (answer.status_code, answer.json()["tags"]) == (200, tags)

    def found(query: str) -> set[str]:
        return {job["name"] for job in api.get(f"/jobs?{query}").json()["results"]}

    assert found("tag=a") == {"one", "two"}
    assert found("tag=a,b") == found("tag=a&tag=b") == {"one"}
    assert found("tag=c") == set()


@pytest.mark.parametrize("tag", ["", " a", "-a", "a b", "é", "a\n"])
def test_a_tag_that_is_none_is_refused(alice, vc, tag):
    job = submit(alice, vc)
    answer = Api(alice).put(f"/jobs/{job.pk}/tags", {"tags": [tag]})
    assert answer.status_code == 400
    spec = {**job_file(vc)}
    spec["extras"]["tags"] = [tag]
    assert [p.code for p in services.check(alice, json.dumps(spec)).errors] == ["invalid_tag"]


def convert(user, query: str, text: str):
    client = Api(user).client
    return client.post(f"/api/v1/jobs/convert{query}", text, content_type="text/plain")


def test_a_batch_script_becomes_a_job_file_with_notes(alice):
    script = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --gpus-per-node=2\npython train.py\n"
    answer = convert(alice, "?format=slurm", script)
    assert answer.status_code == 200
    assert "python train.py" in answer.json()["text"]
    assert all(note["line"] >= 1 for note in answer.json()["notes"])


@pytest.mark.parametrize("query", ["", "?format=kubeflow"])
def test_what_is_of_no_other_format_is_reported_with_its_place(alice, query):
    answer = convert(alice, query, "x: [")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_job")
    assert answer.json()["details"]["errors"][0]["line"] >= 1


def test_another_format_is_refused(alice):
    answer = convert(alice, "?format=pbs", "x")
    assert answer.json()["code"] == "invalid_filter"


def test_numbering_a_clone_reads_one_row_however_many_there_are(alice, vc):
    source = submit(alice, vc, name="train")
    for name in ("train-7", "train-x-9", "train-12a", "train_8"):
        submit(alice, vc, name=name)
    with CaptureQueriesContext(connection) as queries:
        assert services.clone(alice, source.pk).name == "train-8"
    (named,) = [q["sql"] for q in queries if "starts_with" in q["sql"]]
    assert "max(" in named


@pytest.mark.django_db(transaction=True)
def test_clones_at_the_same_moment_get_a_number_each(alice, vc):
    source = submit(alice, vc, name="train")
    found = at_once(*(lambda: services.clone(alice, source.pk) for _ in range(4)))
    assert codes(found) == ["ok"] * 4
    assert sorted(clone.name for clone in found) == [f"train-{n}" for n in range(2, 6)]


@pytest.mark.django_db(transaction=True)
def test_a_clone_whose_archive_was_deleted_at_that_moment_blames_no_name(alice, vc, archive):
    source = services.submit(alice, json.dumps(secret_job(vc)))

    def delete() -> None:
        forget_archives(Archive.objects.all())
        Archive.objects.all().delete()

    with (
        pytest.raises(Conflict) as error,
        just_before('INSERT INTO "jobs_jobfiles"', lambda: at_once(delete)),
    ):
        services.clone(alice, source.pk)
    assert error.value.code == "conflict"


def test_clones_are_numbered_past_nine_digits(alice, vc):
    source = submit(alice, vc, name="train-999999999")
    names = [services.clone(alice, source.pk).name for _ in range(2)]
    assert names == ["train-1000000000", "train-1000000001"]
