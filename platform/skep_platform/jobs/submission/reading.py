"""Reading a job file completely: run in the worker processes of `core.parse_pool`.

Pure, and imports no Django: what comes in is text, what goes out is JSON. All problems are reported
at once, also those of later checks in a file that has problems with earlier ones: the parts that
are wrong are then left out, or replaced by something small, and the rest is checked as if it were
good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import skep_jobfile
from skep_jobfile import (
    Document,
    InvalidJobFile,
    Issue,
    JobFile,
    Path,
    Problem,
    importers,
    located,
    rendering,
    scripts,
)
from skep_jobfile.budget import Budget, TooMuchText
from skep_jobfile.raw import suggestions
from skep_jobfile.secret_values import masks_of, render_secrets, secret_texts
from skep_platform.core.errors import SkepError
from skep_platform.jobs.submission import bounds

ROUNDS = 4  # of leaving out what is wrong
MOST_MENDED = 100  # problems; a file with more has enough to report
# What stands in for a required field that is missing or wrong.
STAND_INS: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "job",
    "type": "job",
    "uri": "image",
    "event": "taskStarts",
    "cpu": 1,
    "memoryMB": 1024,
    "gpu": 0,
    "commands": ["true"],
}


class InvalidFile(SkepError):
    """The file cannot be accepted; `details.errors` has every problem."""

    code = "invalid_job"

    def __init__(self, problems: Sequence[Problem]) -> None:
        cause = InvalidJobFile(problems)
        super().__init__(str(cause), errors=[problem.as_dict() for problem in cause.problems])


def read_call(text: str) -> dict[str, Any]:
    """Read a job file completely. Return `data` of the job, its `commands` and `environment`,
    rendered but for secrets, `auths` with secrets, `spec_text` without them, and `notes`.

    With `problems`, the job is what is left without what they blame (`data`: None where nothing
    is), and `mended` are the paths of what was left out. Raises InvalidFile for what cannot be read
    at all."""
    document = _document(text)
    try:
        job, issues = skep_jobfile.examine(document)
    except InvalidJobFile as error:
        raise InvalidFile(error.problems) from None
    data, mended = document.data, list[Path]()
    if (job is None or not _is_whole(job)) and len(issues) <= MOST_MENDED:
        job, data, mended = _mended(document.data, issues)
    answer: dict[str, Any] = {"data": None, "mended": mended, "problems": []}
    if job is not None and (not issues or _is_whole(job)):
        built, more = _built(job, data)
        issues += [issue for issue in more if not _concerns(issue.path, mended)]
        answer |= built | {"data": data}
    if issues:
        answer["problems"] = _as_dicts(located(document, _unique(issues)))
    elif job is not None:
        notes = located(document, skep_jobfile.notes(job, data))
        answer |= {"spec_text": skep_jobfile.masked(document), "notes": _as_dicts(notes)}
    return answer


def read_all_call(texts: list[str]) -> list[dict[str, Any]]:
    """Read several job files as `read_call` does: `ok` of each, or its `problems`."""
    found: list[dict[str, Any]] = []
    for text in texts:
        try:
            found.append({"ok": read_call(text)})
        except InvalidFile as error:
            found.append({"problems": error.details["errors"]})
    return found


def locate_call(text: str, issues: list[list[Any]]) -> list[dict[str, Any]]:
    """Return these issues (code, message, path) with their places in the text."""
    found = [Issue(code, message, tuple(path)) for code, message, path in issues]
    return _as_dicts(located(_document(text), found))


def rename_call(text: str, name: str) -> str:
    """Return the text of the job under another name."""
    return skep_jobfile.renamed(_document(text), name)


def revise_call(text: str, changes: list[list[Any]]) -> str:
    """Return the text of the job with these values: (path, value) of fields that it has."""
    try:
        return skep_jobfile.revised(_document(text), [(tuple(p), value) for p, value in changes])
    except InvalidJobFile as error:
        raise InvalidFile(error.problems) from None


def publish_call(text: str) -> str | None:
    """Return the text of the job for others to start from; None where it has secrets."""
    return skep_jobfile.published(_document(text))


def convert_call(text: str, format: importers.Format) -> dict[str, Any]:
    """Make a job file out of another format. Raises InvalidFile."""
    try:
        found = importers.convert(text, format)
    except InvalidJobFile as error:
        raise InvalidFile(error.problems) from None
    notes = [{"code": n.code, "message": n.message, "line": n.line} for n in found.notes]
    return {"text": found.text, "notes": notes}


def _document(text: str) -> Document:
    try:
        return skep_jobfile.read(text)
    except InvalidJobFile as error:
        raise InvalidFile(error.problems) from None


def _as_dicts(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    return [problem.as_dict() for problem in problems]


def _unique(issues: Sequence[Issue]) -> list[Issue]:
    return list({(issue.path, issue.code): issue for issue in issues}.values())


def _built(job: JobFile, data: dict[str, Any]) -> tuple[dict[str, Any], list[Issue]]:
    """Return what the containers run, and what is wrong with it."""
    if issues := list(bounds.of_counts(job)):
        return {}, issues
    found = scripts.build(job, data)
    auths, unread = rendering.auths(data)
    issues = [*found.issues, *unread, *bounds.check(job, found.commands, found.environment)]
    if not issues:
        issues += _secrets(job, found.commands, found.environment)
    built = {"commands": found.commands, "environment": found.environment, "auths": auths}
    return built, issues


def _secrets(
    job: JobFile, commands: dict[str, str], environment: dict[str, str]
) -> Iterator[Issue]:
    """Check the job with its secrets filled in: at the submit, not when a node gets it."""
    if not job.secrets:
        return
    path: Path = ("secrets",)
    texts = list(secret_texts(job.secrets))
    if len(texts) > bounds.MAX_SECRETS:
        message = f"{len(texts)} values; a job has at most {bounds.MAX_SECRETS} secrets."
        yield Issue("too_many_secrets", message, path)
        return
    if any(len(text.encode()) > bounds.MAX_SECRET_BYTES for text in texts):
        message = f"A secret has at most {bounds.MAX_SECRET_BYTES} bytes."
        yield Issue("secret_too_long", message, path)
        return
    masks = masks_of(texts)
    size = sum(len(mask.encode()) for mask in masks)
    if len(masks) > bounds.MAX_MASKS or size > bounds.MAX_MASK_BYTES:
        message = (
            f"To mask the secrets in logs, {len(masks)} texts of {size} bytes would be looked for "
            f"(lines of secrets in all their encodings); at most {bounds.MAX_MASKS} with "
            f"{bounds.MAX_MASK_BYTES} bytes. Keep fewer or shorter secrets in the job file."
        )
        yield Issue("too_many_secrets", message, path)
        return
    budget = Budget()
    rendered: dict[str, dict[str, str]] = {"commands": {}, "environment": {}}
    where: Path = path
    try:
        for name, text in commands.items():
            where = ("taskRoles", name, "commands")
            rendered["commands"][name] = render_secrets(text, job.secrets, budget)
        for name, text in environment.items():
            where = ("extras", "skep", "environment", name)
            rendered["environment"][name] = render_secrets(text, job.secrets, budget)
    except TooMuchText:
        yield rendering.too_large(where, budget)
        return
    yield from bounds.of_texts(rendered["commands"], rendered["environment"], with_secrets=True)


def _is_whole(job: JobFile) -> bool:
    """Whether all that it refers to is there."""
    images = {item.name for item in job.prerequisites if item.type == "dockerimage"}
    return all(role.docker_image in images for role in job.task_roles.values())


def _mended(
    data: dict[str, Any], issues: Sequence[Issue]
) -> tuple[JobFile | None, dict[str, Any], list[Path]]:
    """Return the job without what is wrong with its shape, and the paths of that."""
    data, mended = deepcopy(data), list[Path]()
    for _ in range(ROUNDS):
        for issue in reversed(issues):  # so that indexes stay what they are
            if _mend(data, issue.path):
                mended.append(issue.path)
        with suggestions():
            job, issues = skep_jobfile.explain(JobFile, data)
        if job is not None:
            return job, data, mended
    return None, data, mended


def _mend(data: dict[str, Any], path: Path) -> bool:
    """Leave out or replace what is at the path; return whether something was there."""
    parent: Any = data
    for step in path[:-1]:
        if isinstance(step, int):
            inside = isinstance(parent, list) and 0 <= step < len(parent)
        else:
            inside = isinstance(parent, dict) and step in parent
        if not inside:
            return False
        parent = parent[step]
    last = path[-1] if path else None
    if isinstance(parent, list) and isinstance(last, int) and 0 <= last < len(parent):
        del parent[last]
        return True
    if not isinstance(parent, dict):
        return False
    if last == "dockerImage":
        return _stand_in(parent, "dockerImage", _first_image(data))
    if last == "resourcePerInstance":
        return _stand_in(parent, "resourcePerInstance", {"cpu": 1, "memoryMB": 1024, "gpu": 0})
    if last in STAND_INS:
        return _stand_in(parent, str(last), deepcopy(STAND_INS[str(last)]))
    return parent.pop(last, parent) is not parent


def _stand_in(parent: dict[str, Any], key: str, value: Any) -> bool:
    if value is None or parent.get(key) == value:
        return parent.pop(key, None) is not None
    parent[key] = value
    return True


def _first_image(data: dict[str, Any]) -> Any:
    found = data.get("prerequisites")
    for item in found if isinstance(found, list) else []:
        if isinstance(item, dict) and item.get("type") == "dockerimage":
            return item.get("name")
    return None


def _concerns(path: Path, mended: Sequence[Path]) -> bool:
    """Whether a place is, or is in, or holds what was left out."""
    return any(path[: len(other)] == other or other[: len(path)] == path for other in mended)
