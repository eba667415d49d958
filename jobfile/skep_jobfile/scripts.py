"""What the container of a task really runs: the role's commands, with what plugins, prerequisites
and Skep's own fields put around them. Secrets stay out; only containers fill them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from skep_jobfile.budget import Budget, TooMuchText
from skep_jobfile.extras import RuntimePlugin
from skep_jobfile.javascript import trim
from skep_jobfile.models import DockerImage, Files, JobFile
from skep_jobfile.problems import Issue, Path
from skep_jobfile.raw import items
from skep_jobfile.rendering import TOO_LARGE, entrypoints, filled, too_large, values_of

CMD = "com.microsoft.pai.runtimeplugin.cmd"
PLUGINS = "com.microsoft.pai.runtimeplugin"
STARTS, SUCCEEDS = "taskStarts", "taskSucceeds"
IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Around:
    """Commands of one plugin or prerequisite, by event, with their place in the file."""

    callbacks: list[tuple[str, list[Any], Path]]
    failure_policy: str | None = None


@dataclass(slots=True)
class Scripts:
    """Role -> shell script, variable -> value, and what is wrong with them."""

    commands: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)


def build(job: JobFile, data: dict[str, Any]) -> Scripts:
    budget = Budget()
    own, issues = entrypoints(job, data, budget)
    found = Scripts(issues=issues)
    shared = {"$parameters": data.get("parameters")}
    for name, value in job.extras.skep.environment.items():
        path: Path = ("extras", "skep", "environment", name)
        found.environment[name] = filled(value, shared, path, found.issues, budget)
    for name, script in own.items():
        if any(issue.code == TOO_LARGE for issue in found.issues):
            break
        found.commands[name] = _surrounded(job, data, name, script, found.issues, budget)
    return found


def _surrounded(
    job: JobFile,
    data: dict[str, Any],
    role: str,
    script: str,
    issues: list[Issue],
    budget: Budget,
) -> str:
    before, after = _git(job, data, issues, budget), list[str]()
    values = values_of(data, role)
    for around in _around(job, data, role):
        for event, commands, path in around.callbacks:
            text = "\n".join(trim(filled(c, values, path, issues, budget)) for c in commands)
            step = shell_step(text, ignore=around.failure_policy == IGNORE)
            try:
                budget.write(step[len(text) :])  # the shell around it counts, too
            except TooMuchText:
                issues.append(too_large(path, budget))
                return ""
            if event == STARTS:
                before.append(step)
            elif event == SUCCEEDS:
                after.insert(0, step)
    own = [shell_step(script), *after] if after else [script]
    return "\n".join([*before, *own])


def _git(job: JobFile, data: dict[str, Any], issues: list[Issue], budget: Budget) -> list[str]:
    files = job.extras.skep.working_files
    if files is None or files.git is None:
        return []
    path: Path = ("extras", "skep", "workingFiles", "git", "url")
    url = filled(files.git.url, {"$parameters": data.get("parameters")}, path, issues, budget)
    return [git_checkout(url, files.git.commit, files.path)]


def _around(job: JobFile, data: dict[str, Any], role: str) -> Iterator[Around]:
    """Yield the prerequisites of the role with those that they require, then the plugins."""
    places = {item.get("name"): index for index, item in items(data, "prerequisites")}
    for item in _required(job, job.task_roles[role].prerequisites):
        if item.plugin == CMD:
            path: Path = ("prerequisites", places[item.name], "callbacks")
            found = [(c.event, c.commands, (*path, i)) for i, c in enumerate(item.callbacks)]
            yield Around(found, item.failure_policy)
    for index, plugin in _cmd_plugins(job, role):
        path = ("extras", PLUGINS, index, "parameters", "callbacks")
        yield Around(list(_listed(plugin.parameters, path)), plugin.failure_policy)


def _required(job: JobFile, names: list[str]) -> list[Files]:
    """Each once, after those that it requires; in a circle, whoever is met first comes last."""
    known = {p.name: p for p in job.prerequisites if not isinstance(p, DockerImage)}
    ordered: list[Files] = []
    met: set[str] = set()
    stack = [(name, False) for name in reversed(names)]
    while stack:
        name, ready = stack.pop()
        if ready:
            ordered.append(known[name])
        elif name in known and name not in met:
            met.add(name)
            stack.append((name, True))
            stack.extend((other, False) for other in reversed(known[name].require))
    return ordered


def _cmd_plugins(job: JobFile, role: str) -> Iterator[tuple[int, RuntimePlugin]]:
    """Those that are for the role, with their place in the list."""
    for index, plugin in enumerate(job.extras.runtime_plugins):
        if plugin.plugin == "cmd" and (not plugin.taskroles or role in plugin.taskroles):
            yield index, plugin


def _listed(parameters: Any, path: Path) -> Iterator[tuple[str, list[Any], Path]]:
    callbacks = parameters.get("callbacks") if isinstance(parameters, dict) else None
    for index, item in enumerate(callbacks if isinstance(callbacks, list) else []):
        commands = item.get("commands") if isinstance(item, dict) else None
        if isinstance(commands, list):
            yield str(item.get("event")), commands, (*path, index)


def shell_step(script: str, *, ignore: bool = False) -> str:
    """The script in a shell of its own; the task ends as it ends, where that is not well."""
    return f"(\n{script}\n) || {'true' if ignore else 'exit'}"


def git_checkout(url: str, commit: str, path: str) -> str:
    """Return a step that checks a commit out into a new folder. Nothing printed repeats the
    address: it may hold a token."""
    return shell_step(
        f"""\
say() {{ echo "skep: git $1" >&2; exit 1; }}
command -v git >/dev/null || say 'is not in this image; take one that has it'
export GIT_TERMINAL_PROMPT=0
mkdir -p {quote(path)} && cd {quote(path)} && git init -q . || say 'cannot write to its folder'
git remote add origin {quote(url)} 2>/dev/null
git fetch -q --depth 1 origin {commit} 2>/dev/null || git fetch -q origin 2>/dev/null ||
  say 'cannot fetch from the repository; look at its address, the token and the network'
git checkout -q {commit} 2>/dev/null || say 'has no commit {commit}'"""
    )
