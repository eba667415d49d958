"""What comes with a job besides its file: its secrets, encrypted, and its working files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from skep_jobfile import Issue
from skep_jobfile.addresses import without_credentials
from skep_jobfile.models import DOCKER_HUB
from skep_platform.accounts.models import User
from skep_platform.core import encryption
from skep_platform.files.models import Archive
from skep_platform.jobs.models import Job, JobFiles, JobSecrets
from skep_platform.jobs.submission.job_file import ReadJob


@dataclass(frozen=True, slots=True)
class Attachments:
    """What is stored with a job. `auths`: how to log in at registries, by uri of the image.
    `sealed`: the encrypted secrets of the job that is cloned."""

    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    auths: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    archive: Archive | None = None
    sealed: bytes | None = field(default=None, repr=False)

    @property
    def any(self) -> bool:
        """Return whether there is something to store."""
        return bool(self.secrets or self.auths or self.archive or self.sealed)

    def store(self, job: Job, images: Mapping[str, str]) -> None:
        """Store it all. `images` has the reference to pull, by uri."""
        if sealed := self._sealed(images):
            JobSecrets.objects.create(job=job, sealed=sealed)
        if self.archive is not None:
            JobFiles.objects.create(job=job, archive=self.archive)
            Archive.objects.filter(pk=self.archive.pk).update(used_at=Now())

    def _sealed(self, images: Mapping[str, str]) -> bytes | None:
        if self.sealed or not (self.secrets or self.auths):
            return self.sealed
        auths = {images[uri]: auth for uri, auth in self.auths.items() if uri in images}
        return encryption.seal(json.dumps({"secrets": self.secrets, "auths": auths}).encode())


def of(user: User, read: ReadJob) -> tuple[Attachments, Issue | None]:
    """Return what comes with the job, and why it is refused where its archive was not uploaded."""
    archive, issue = _archive(user, read)
    auths = {
        item.uri: _login(read.auths[item.name])
        for item in read.job.prerequisites
        if item.type == "dockerimage" and item.auth is not None
    }
    return Attachments(read.secrets, auths, archive), issue


def of_clone(source: Job) -> Attachments:
    """Return the attachments of the job that is cloned."""
    secrets = JobSecrets.objects.filter(job=source).first()
    files = JobFiles.objects.filter(job=source).select_related("archive").first()
    return Attachments(
        archive=files.archive if files else None, sealed=bytes(secrets.sealed) if secrets else None
    )


def sources(job: Job) -> dict[str, Any]:
    """Return where its working files come from, as the API shows it; a query where it has an
    archive."""
    asked = job.spec.get("extras", {}).get("skep", {}).get("workingFiles") or {}
    path, git, archive = asked.get("path", ""), asked.get("git"), None
    if asked.get("archive"):
        archive = Archive.objects.filter(jobs__job=job).values("sha256", "size").first()
    return {
        "working_files": {**archive, "path": path} if archive else None,
        "git": {**git, "url": without_credentials(git["url"]), "path": path} if git else None,
    }


def archives_in_use() -> QuerySet[JobFiles, Any]:
    """Return the ids of the archives that jobs which have not ended start with."""
    return JobFiles.objects.filter(job__finished_at=None).values("archive")


def forget_archives(archives: QuerySet[Archive]) -> None:
    """Forget that jobs came with these archives, which are about to be deleted."""
    JobFiles.objects.filter(archive__in=archives).delete()


def _login(auth: Mapping[str, str]) -> dict[str, str]:
    return {
        "username": auth.get("username", ""),
        "password": auth.get("password", ""),
        "registry": auth.get("registryuri") or DOCKER_HUB,
    }


def _archive(user: User, read: ReadJob) -> tuple[Archive | None, Issue | None]:
    files = read.job.extras.skep.working_files
    if files is None or files.archive is None:
        return None, None
    sha256 = files.archive.removeprefix("sha256:")
    archive = Archive.objects.filter(owner=user, sha256=sha256).first()
    if archive is not None:
        return archive, None
    message = f"You have uploaded no archive {files.archive}: send it to /api/v1/files first."
    path = ("extras", "skep", "workingFiles", "archive")
    return None, Issue("unknown_archive", message, path, details={"sha256": sha256})
