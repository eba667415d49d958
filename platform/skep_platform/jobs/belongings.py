"""What a job brings along besides its file: its secrets, sealed, and its working files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models.functions import Now

from skep_platform.accounts.models import User
from skep_platform.core import vault
from skep_platform.files.models import Archive
from skep_platform.jobs.job_file import ReadJob
from skep_platform.jobs.models import Job, JobFiles, JobSecrets
from skep_platform.jobs.owning import Objection


@dataclass(frozen=True, slots=True)
class Belongings:
    """`auths`: how to log in at registries, by uri of the image."""

    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    auths: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    archive: Archive | None = None

    def store(self, job: Job, images: Mapping[str, str]) -> None:
        """`images`: the reference to pull, by uri."""
        if self.secrets or self.auths:
            auths = {images[uri]: auth for uri, auth in self.auths.items() if uri in images}
            known = {"secrets": self.secrets, "auths": auths}
            JobSecrets.objects.create(job=job, sealed=vault.seal(json.dumps(known).encode()))
        if self.archive is not None:
            JobFiles.objects.create(job=job, archive=self.archive)
            Archive.objects.filter(pk=self.archive.pk).update(used_at=Now())


def of(user: User, read: ReadJob) -> tuple[Belongings, Objection | None]:
    """What comes with the job, and what its owner has not uploaded."""
    archive, objection = _archive(user, read)
    auths = {
        item.uri: _login(read.auths[item.name])
        for item in read.job.prerequisites
        if item.type == "dockerimage" and item.auth is not None
    }
    return Belongings(read.secrets, auths, archive), objection


def _login(auth: Mapping[str, str]) -> dict[str, str]:
    return {
        "username": auth.get("username", ""),
        "password": auth.get("password", ""),
        "registry": auth.get("registryuri", ""),
    }


def _archive(user: User, read: ReadJob) -> tuple[Archive | None, Objection | None]:
    files = read.job.extras.skep.working_files
    if files is None or files.archive is None:
        return None, None
    sha256 = files.archive.removeprefix("sha256:")
    archive = Archive.objects.filter(owner=user, sha256=sha256).first()
    if archive is not None:
        return archive, None
    message = f"You have uploaded no archive {files.archive}: send it to /api/v1/files first."
    path = ("extras", "skep", "workingFiles", "archive")
    return None, Objection("unknown_archive", message, path, {"sha256": sha256})
