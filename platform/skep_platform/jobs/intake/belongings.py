"""What a job brings along besides its file: its secrets, sealed, and its working files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models.functions import Now

from skep_jobfile.addresses import without_credentials
from skep_jobfile.models import DOCKER_HUB
from skep_platform.accounts.models import User
from skep_platform.core import vault
from skep_platform.files.models import Archive
from skep_platform.jobs.intake.job_file import ReadJob
from skep_platform.jobs.intake.owning import Objection
from skep_platform.jobs.models import Job, JobFiles, JobSecrets


@dataclass(frozen=True, slots=True)
class Belongings:
    """`auths`: how to log in at registries, by uri of the image. `sealed`: all of this already, of
    the job that is cloned."""

    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    auths: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    archive: Archive | None = None
    sealed: bytes | None = field(default=None, repr=False)

    def store(self, job: Job, images: Mapping[str, str]) -> None:
        """`images`: the reference to pull, by uri."""
        if sealed := self._sealed(images):
            JobSecrets.objects.create(job=job, sealed=sealed)
        if self.archive is not None:
            JobFiles.objects.create(job=job, archive=self.archive)
            Archive.objects.filter(pk=self.archive.pk).update(used_at=Now())

    def _sealed(self, images: Mapping[str, str]) -> bytes | None:
        if self.sealed or not (self.secrets or self.auths):
            return self.sealed
        auths = {images[uri]: auth for uri, auth in self.auths.items() if uri in images}
        return vault.seal(json.dumps({"secrets": self.secrets, "auths": auths}).encode())


def of(user: User, read: ReadJob) -> tuple[Belongings, Objection | None]:
    """What comes with the job, and what its owner has not uploaded."""
    archive, objection = _archive(user, read)
    auths = {
        item.uri: _login(read.auths[item.name])
        for item in read.job.prerequisites
        if item.type == "dockerimage" and item.auth is not None
    }
    return Belongings(read.secrets, auths, archive), objection


def of_clone(source: Job) -> Belongings:
    """What the other job came with."""
    secrets = JobSecrets.objects.filter(job=source).first()
    files = JobFiles.objects.filter(job=source).select_related("archive").first()
    return Belongings(
        archive=files.archive if files else None, sealed=bytes(secrets.sealed) if secrets else None
    )


def sources(job: Job) -> dict[str, Any]:
    """Where its working files come from, as the API tells it; a query where it has an archive."""
    asked = job.spec.get("extras", {}).get("skep", {}).get("workingFiles") or {}
    path, git, archive = asked.get("path", ""), asked.get("git"), None
    if asked.get("archive"):
        archive = Archive.objects.filter(jobs__job=job).values("sha256", "size").first()
    return {
        "working_files": {**archive, "path": path} if archive else None,
        "git": {**git, "url": without_credentials(git["url"]), "path": path} if git else None,
    }


def _login(auth: Mapping[str, str]) -> dict[str, str]:
    return {
        "username": auth.get("username", ""),
        "password": auth.get("password", ""),
        "registry": auth.get("registryuri") or DOCKER_HUB,
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
