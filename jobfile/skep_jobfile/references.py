"""What holds between fields: names that are referred to, names that are there twice, and what
Skep's own fields ask of each other.

Reads the raw data and passes over what has the wrong shape: that is reported already, and an
author gets all problems at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from skep_jobfile.addresses import shows_credentials as shows
from skep_jobfile.budget import TooMuchText
from skep_jobfile.demands import SKEP
from skep_jobfile.problems import Issue, Path
from skep_jobfile.raw import did_you_mean, items, role_key, section
from skep_jobfile.templates import TemplateError, fill
from skep_limits import is_node_variable, is_platform_variable

# Field of a role -> type of the prerequisite that it names.
NAMED = {"script": "script", "output": "output", "data": "data", "dockerImage": "dockerimage"}


def check(data: dict[str, Any]) -> list[Issue]:
    roles = section(data, "taskRoles")
    return [
        *_prerequisites_twice(data),
        *_unknown_prerequisites(data, roles),
        *_deployments_twice(data),
        *_unknown_deployment(data),
        *_same_names(roles),
    ]


def _prerequisites_twice(data: dict[str, Any]) -> Iterator[Issue]:
    seen = set()
    for index, item in items(data, "prerequisites"):
        key = (str(item.get("type")), str(item.get("name")))
        if key in seen:
            message = f"There is a {key[0][:50]} named {key[1][:100]} already."
            yield Issue("duplicate_prerequisite", message, ("prerequisites", index, "name"))
        seen.add(key)


def _unknown_prerequisites(data: dict[str, Any], roles: dict[str, Any]) -> Iterator[Issue]:
    known = [item for _, item in items(data, "prerequisites")]
    everything = _names(known)
    of_kind = {
        kind: _names(item for item in known if item.get("type") == kind) for kind in NAMED.values()
    }
    for name in roles:
        role = section(roles, name)
        for field, kind in NAMED.items():
            wanted, names = role.get(field), of_kind[kind]
            if isinstance(wanted, str) and wanted not in names:
                yield _unknown(("taskRoles", name, field), kind, wanted, names)
        asked = role.get("prerequisites")
        for index, wanted in enumerate(asked if isinstance(asked, list) else []):
            if isinstance(wanted, str) and wanted not in everything:
                path: Path = ("taskRoles", name, "prerequisites", index)
                yield _unknown(path, "", wanted, everything)


def _unknown(path: Path, kind: str, wanted: str, names: Iterable[str]) -> Issue:
    code = "unknown_docker_image" if kind == "dockerimage" else "unknown_prerequisite"
    what = f"{kind} prerequisite" if kind else "prerequisite"
    message = f"No {what} is named {wanted[:100]}.{did_you_mean(wanted, names)}"
    return Issue(code, message, path)


def _deployments_twice(data: dict[str, Any]) -> Iterator[Issue]:
    seen = set()
    for index, item in items(data, "deployments"):
        name = str(item.get("name"))
        if name in seen:
            message = f"There is a deployment named {name[:100]} already."
            yield Issue("duplicate_deployment", message, ("deployments", index, "name"))
        seen.add(name)


def _unknown_deployment(data: dict[str, Any]) -> Iterator[Issue]:
    wanted = section(data, "defaults").get("deployment")
    names = _names(item for _, item in items(data, "deployments"))
    if isinstance(wanted, str) and wanted not in names:
        message = f"No deployment is named {wanted[:100]}.{did_you_mean(wanted, names)}"
        yield Issue("unknown_deployment", message, ("defaults", "deployment"))


def _same_names(roles: dict[str, Any]) -> Iterator[Issue]:
    first: dict[str, str] = {}
    for name in roles:
        other = first.setdefault(role_key(name), name)
        if other != name:
            message = f"{name[:100]} and {other[:100]} differ in case and underscores only."
            yield Issue("same_role_names", message, ("taskRoles", name), at_key=True)


def _names(known: Iterable[dict[str, Any]]) -> dict[str, None]:
    """In their order, to be looked up."""
    names = (item.get("name") for item in known)
    return {name: None for name in names if isinstance(name, str)}


def check_own_fields(data: dict[str, Any]) -> list[Issue]:
    """Return the issues between Skep's own fields."""
    skep = section(data, *map(str, SKEP))
    return [
        *_reserved_variables(skep),
        *_sources(skep),
        *_elastic(data, skep),
        *_credentials(data, skep),
        *_roles(data, skep),
        *_apps(data, skep),
        *_metrics(data, skep),
    ]


def _reserved_variables(skep: dict[str, Any]) -> Iterator[Issue]:
    for name in section(skep, "environment"):
        path = (*SKEP, "environment", name)
        if is_platform_variable(name):
            message = f"{name[:100]} is set by the platform."
            yield Issue("reserved_variable", message, path, at_key=True)
        elif is_node_variable(name):
            message = f"{name[:100]} is set by the node; export it in `commands` instead."
            yield Issue("reserved_variable", message, path, at_key=True)


def _sources(skep: dict[str, Any]) -> Iterator[Issue]:
    files = section(skep, "workingFiles")
    if not isinstance(skep.get("workingFiles"), dict):
        return
    given = [key for key in ("archive", "git") if files.get(key) is not None]
    if len(given) != 1:
        message = "Working files are an archive or a git commit: give one of them."
        yield Issue("working_files_source", message, (*SKEP, "workingFiles"))


def _credentials(data: dict[str, Any], skep: dict[str, Any]) -> Iterator[Issue]:
    """User names and passwords that stand in the open in addresses: they would be stored and
    shown."""
    values = {"$parameters": data.get("parameters")}
    url = section(skep, "workingFiles", "git").get("url")
    found: list[tuple[Path, Any]] = [((*SKEP, "workingFiles", "git", "url"), url)]
    for index, item in items(data, "prerequisites"):
        uri = item.get("uri")
        several = uri if isinstance(uri, list) else [uri]
        found += [(("prerequisites", index, "uri"), one) for one in several]
    for path, text in found:
        if isinstance(text, str) and (shows(text) or shows(_filled(text, values))):
            message = (
                "A user name or password in an address is shown to whoever sees the job. Keep it "
                "in `secrets`, and write https://<% $secrets.user %>:<% $secrets.token %>@… here."
            )
            yield Issue("credentials_in_url", message, path)


def _filled(url: str, values: dict[str, Any]) -> str:
    try:
        return fill(url, values)
    except (TemplateError, TooMuchText):
        return ""


def _roles(data: dict[str, Any], skep: dict[str, Any]) -> Iterator[Issue]:
    roles, gang = section(data, "taskRoles"), section(data, "extras").get("gangAllocation", True)
    for name in (own := section(skep, "taskRoles")):
        path: Path = (*SKEP, "taskRoles", name)
        if name not in roles:
            message = f"There is no task role {name[:100]}.{did_you_mean(name, roles)}"
            yield Issue("unknown_task_role", message, path, at_key=True)
        elif section(own, name).get("parallelism") is not None and gang is not False:
            message = (
                "The tasks of a gang start together: set extras.gangAllocation to false, so that "
                "they start one by one."
            )
            yield Issue("parallelism_of_gang", message, (*path, "parallelism"), at_key=True)


def _apps(data: dict[str, Any], skep: dict[str, Any]) -> Iterator[Issue]:
    roles, seen = section(data, "taskRoles"), set()
    for index, app in items(skep, "apps"):
        path: Path = (*SKEP, "apps", index)
        name, role, shell = app.get("name"), app.get("taskRole"), app.get("type") == "shell"
        if isinstance(name, str) and name in seen:
            message = f"There is an app named {name[:100]} already."
            yield Issue("duplicate_app", message, (*path, "name"))
        seen.add(str(name))
        if isinstance(role, str) and role not in roles:
            message = f"There is no task role {role[:100]}.{did_you_mean(role, roles)}"
            yield Issue("unknown_task_role", message, (*path, "taskRole"))
        if shell and app.get("port") is not None:
            yield Issue("app_port", "A shell listens on no port: remove it.", (*path, "port"))
        if not shell and app.get("port") is None:
            yield Issue("app_port", "On which port does it listen? Add `port`.", path)


def _metrics(data: dict[str, Any], skep: dict[str, Any]) -> Iterator[Issue]:
    roles, role, seen = section(data, "taskRoles"), skep.get("metricsRole"), set()
    if isinstance(role, str) and role not in roles:
        message = f"There is no task role {role[:100]}.{did_you_mean(role, roles)}"
        yield Issue("unknown_task_role", message, (*SKEP, "metricsRole"))
    asked = skep.get("metrics")
    for index, one in enumerate(asked if isinstance(asked, list) else []):
        name = one.get("name") if isinstance(one, dict) else one
        if isinstance(name, str) and name in seen:
            message = f"There is a metric named {name[:100]} already."
            yield Issue("duplicate_metric", message, (*SKEP, "metrics", index))
        seen.add(str(name))


def _elastic(data: dict[str, Any], skep: dict[str, Any]) -> Iterator[Issue]:
    elastic, path = section(skep, "elastic"), (*SKEP, "elastic")
    fewest, most = (elastic.get(key) for key in ("min", "max"))
    if type(fewest) is not int or type(most) is not int:
        return
    if fewest > most:
        message = f"The fewest tasks ({fewest}) are more than the most ({most})."
        yield Issue("invalid_value", message, (*path, "min"))
        return
    if section(data, "extras").get("gangAllocation", True) is False:
        message = (
            "The tasks start one by one here, so that there is no size to choose: remove "
            "`elastic`, or extras.gangAllocation."
        )
        yield Issue("elastic_not_gang", message, path, at_key=True)
    roles = section(data, "taskRoles")
    name = next(reversed(roles), "")
    role = section(roles, name)
    instances = role.get("instances", 1)
    if type(instances) is int and not fewest <= instances <= most:
        message = (
            f"Role {name[:100]} asks for {instances} tasks, which is not from {fewest} to {most}."
        )
        yield Issue("elastic_range", message, path, at_key=True)
    if "minSucceededInstances" in section(role, "completion"):
        message = (
            f"The number of tasks of role {name[:100]} changes, so that it is done when all of "
            "them have succeeded: remove minSucceededInstances."
        )
        where: Path = ("taskRoles", name, "completion", "minSucceededInstances")
        yield Issue("elastic_completion", message, where, at_key=True)
