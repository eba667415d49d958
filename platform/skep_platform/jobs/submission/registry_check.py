"""Whether the images of a job are in their registries, by `images.existence`."""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings

from skep_jobfile import Issue, Path, Problem
from skep_jobfile.models import DOCKER_HUB
from skep_jobfile.problems import words
from skep_platform.accounts.models import User
from skep_platform.images import existence
from skep_platform.images.existence import UNKNOWN, ImageAnswer, Wanted
from skep_platform.jobs.submission.admission import image_references
from skep_platform.jobs.submission.job_file import ReadJob
from skep_platform.tenancy.models import VirtualCluster

CODES = {"missing": "image_not_found", "denied": "image_denied"}
NOT_CHECKED = "image_not_checked"
ON_NODE = "A node that has the image starts it all the same."
ADVICE = {
    "missing": "Correct the name or the tag.",
    "denied": (
        "Correct the name, or store credentials for its registry: `skep registry login`, or `auth` "
        "in the job file."
    ),
}


class ImageCheck(NamedTuple):
    """What the registries said: why the job is refused, and what its author should know."""

    refused: list[Issue]
    notes: list[Issue]

    def note_problems(self) -> list[Problem]:
        """Return the notes without a place in the text, for the job's event."""
        return [Problem(note.code, note.message, words(note.path), 1, 1) for note in self.notes]


def look(user: User, vc: VirtualCluster, read: ReadJob) -> ImageCheck:
    """Ask for the images that were not found lately. No statement for those that were."""
    used = {role.docker_image for role in read.job.task_roles.values()}
    wanted, paths = {}, {}
    for index, item in enumerate(read.job.prerequisites):
        if item.type == "dockerimage" and item.name in used:
            wanted[item.uri] = _wanted(item.uri, read.auths.get(item.name) or {})
            paths[item.uri] = ("prerequisites", index, "uri")
    verdicts = existence.look(
        user.pk, vc.pk, list(wanted.values()), lambda: image_references(read.job, vc)
    )
    found = ImageCheck([], [])
    for uri, verdict in verdicts.items():
        warns = settings.SKEP_CHECK_IMAGES == existence.WARN
        issue = _issue(verdict, paths[uri], warns)
        (found.notes if warns or issue.code == NOT_CHECKED else found.refused).append(issue)
    return found


def _issue(verdict: ImageAnswer, path: Path, warns: bool) -> Issue:
    details = {"image": verdict.reference}
    if verdict.kind == UNKNOWN:
        return Issue(NOT_CHECKED, verdict.message, path, details=details)
    advice = ON_NODE if warns else ADVICE[verdict.kind]
    return Issue(CODES[verdict.kind], f"{verdict.message} {advice}", path, details=details)


def _wanted(uri: str, auth: dict[str, str]) -> Wanted:
    return Wanted(
        uri,
        auth.get("username", ""),
        auth.get("password", ""),
        auth.get("registryuri") or DOCKER_HUB if auth else "",
    )
