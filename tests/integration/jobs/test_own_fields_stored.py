"""What a job file says below `extras.skep`, in the rows and in the detail of the job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api
from tests.support.platform_factories import make_user, make_vc

from skep_platform.core.errors import SkepError
from skep_platform.files.models import Archive
from skep_platform.jobs import queries, services
from skep_platform.jobs.models import Job

pytestmark = pytest.mark.django_db

DIGEST = "b" * 64
ARCHIVE = {"archive": f"sha256:{DIGEST}", "path": "/code"}


@pytest.fixture
def alice():
    user = make_user("alice")
    make_vc("vision", quotas={"A100": 16}, members=[user])
    return user


def text(skep: Any = None, **changes: Any) -> str:
    extras = changes.pop("extras", {})
    spec = job_file("vision", **changes)
    spec["extras"] |= {"skep": skep or {}, **extras}
    return json.dumps(spec)


def test_everything_is_stored_and_shown(alice):
    skep = {
        "duration": "1h",
        "maxDuration": "2h",
        "deadline": "2027-01-31T18:00:00+01:00",
        "network": "bridge",
        "environment": {"NCCL_DEBUG": "INFO", "N": 3},
        "workDir": "/code/src",
        "barrier": "90s",
        "elastic": {"min": 1, "max": 4},
    }
    job = services.submit(alice, text(skep, extras={"tags": ["a", "b", "a"]}))
    shown = Api(alice).get(f"/jobs/{job.pk}").json()
    assert (shown["duration_s"], shown["max_duration_s"], shown["tags"]) == (3600, 7200, ["a", "b"])
    assert shown["deadline_at"].startswith("2027-01-31T17:00:00")
    assert (shown["network_mode"], shown["work_dir"]) == ("bridge", "/code/src")
    assert shown["environment"] == {"NCCL_DEBUG": "INFO", "N": "3"}
    assert (shown["working_files"], shown["git"]) == (None, None)
    assert Job.objects.get(pk=job.pk).barrier_s == 90


def test_what_is_not_carried_out_is_in_the_history(alice):
    plugins = {"com.microsoft.pai.runtimeplugin": [{"plugin": "tensorboard"}]}
    job = services.submit(alice, text(extras=plugins))
    (event,) = queries.events(job)
    note = "extras.com.microsoft.pai.runtimeplugin[0].plugin: "
    assert event.data["notes"] == [note + "The plugin tensorboard is not carried out here."]
    assert event.data["notes"][0] in event.message


def test_an_archive_is_the_owners_own(alice):
    mallory = make_user("mallory")
    Archive.objects.create(owner=mallory, sha256=DIGEST, size=1, unpacked_size=1, files=1)
    with pytest.raises(SkepError) as refused:
        services.submit(alice, text({"workingFiles": ARCHIVE}))
    assert (refused.value.code, refused.value.details) == ("unknown_archive", {"sha256": DIGEST})
    (problem,) = services.check(alice, text({"workingFiles": ARCHIVE})).errors
    assert (problem.code, problem.path) == ("unknown_archive", "extras.skep.workingFiles.archive")


def test_a_job_holds_its_archive_and_marks_it_as_used(alice):
    archive = Archive.objects.create(owner=alice, sha256=DIGEST, size=10, unpacked_size=20, files=1)
    job = services.submit(alice, text({"workingFiles": ARCHIVE}))
    shown = Api(alice).get(f"/jobs/{job.pk}").json()
    assert shown["working_files"] == {"sha256": DIGEST, "size": 10, "path": "/code"}
    assert shown["work_dir"] == "/code"
    assert Archive.objects.get().used_at > archive.used_at


def test_a_git_source_is_shown_and_fetched_by_the_script(alice):
    git = {"url": "https://example.org/a.git", "commit": "a" * 40}
    job = services.submit(alice, text({"workingFiles": {"git": git}}))
    shown = Api(alice).get(f"/jobs/{job.pk}").json()
    assert shown["git"] == {**git, "path": "/workspace"}
    assert "git fetch" in shown["task_roles"][0]["command"]


@pytest.mark.parametrize(("gang", "retries"), [(False, 3), (True, 0)])
def test_tasks_are_retried_by_themselves_only_without_a_gang(alice, gang, retries):
    job = services.submit(alice, text(extras={"gangAllocation": gang}, taskRetryCount=3))
    assert job.roles.get().task_retries == retries
