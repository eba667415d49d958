"""The scripts of the task roles with their parameters filled in; secrets stay out of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skep_jobfile.budget import Budget, TooMuchText
from skep_jobfile.javascript import text_of, trim
from skep_jobfile.models import JobFile
from skep_jobfile.problems import Issue, Path
from skep_jobfile.raw import items, section
from skep_jobfile.templates import TemplateError, fill, render

KINDS = ("script", "output", "data")


TOO_LARGE = "rendered_too_large"


def entrypoints(
    job: JobFile, data: dict[str, Any], budget: Budget | None = None
) -> tuple[dict[str, str], list[Issue]]:
    """Return each role's one shell script. `$secrets` is left as written: only the container of a
    task fills it in."""
    scripts, issues = {}, []
    budget = budget or Budget()
    for name in job.task_roles:
        script = "\n".join(trim(command) for command in job.commands_of(name))
        try:
            scripts[name] = render(script, values_of(data, name), budget)
        except TooMuchText:
            issues.append(too_large(("taskRoles", name, "commands"), budget))
            break
        except TemplateError as error:
            message = f"Not a template: {str(error)[:300]}."
            path = ("taskRoles", name, "commands")
            issues.append(Issue("invalid_template", message, path))
    return scripts, issues


def auths(data: dict[str, Any]) -> tuple[dict[str, dict[str, str]], list[Issue]]:
    """Docker image -> how to log in at its registry, with secrets: never to be shown."""
    found: dict[str, dict[str, str]] = {}
    issues: list[Issue] = []
    values, budget = {"$secrets": section(data, "secrets")}, Budget()
    for index, item in items(data, "prerequisites"):
        if item.get("type") != "dockerimage":
            continue
        for key, value in section(item, "auth").items():
            path: Path = ("prerequisites", index, "auth", key)
            rendered = trim(filled(value, values, path, issues, budget))
            found.setdefault(str(item["name"]), {})[key] = rendered
    return found, issues


def too_large(path: Path, budget: Budget) -> Issue:
    message = (
        f"With its templates filled in, the text of a job has at most {budget.most} characters; "
        "here it becomes more."
    )
    return Issue(TOO_LARGE, message, path)


def filled(
    value: Any, values: Mapping[str, Any], path: Path, issues: list[Issue], budget: Budget
) -> str:
    """Return the value as text with these values in its templates. What is wrong is added to the
    issues, and repeats nothing of the text: it may hold a password."""
    text = text_of(value)
    try:
        return fill(text, values, budget) if "<%" in text else budget.write(text)
    except TooMuchText:
        if not any(issue.code == TOO_LARGE for issue in issues):
            issues.append(too_large(path, budget))
        return ""
    except TemplateError as error:
        what = str(error).split(maxsplit=2)[0]
        message = f"Not a template: {what} tag or section."
        issues.append(Issue("invalid_template", message, path))
        return ""


def values_of(data: dict[str, Any], role: str) -> dict[str, Any]:
    """What templates of this role may name. As written, so that fields that the protocol does not
    know are there, too."""
    chosen = section(data, "taskRoles", role)
    values: dict[str, Any] = {"$parameters": data.get("parameters")}
    for _, item in items(data, "prerequisites"):
        kind = item.get("type")
        if kind in KINDS and item.get("name") == chosen.get(str(kind)):
            values[f"${kind}"] = item
    return values
