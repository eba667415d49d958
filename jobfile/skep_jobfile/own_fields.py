"""What holds between Skep's own fields; reads raw data, as `references`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skep_jobfile.addresses import shows_credentials as shows
from skep_jobfile.budget import TooMuchText
from skep_jobfile.demands import SKEP
from skep_jobfile.problems import Path, Trouble
from skep_jobfile.raw import items, section
from skep_jobfile.templates import TemplateError, fill

# Told by the platform, about where a task is and who the others are.
PLATFORM_PREFIXES = ("PAI_", "SKEP_", "MASTER_")
PLATFORM_NAMES = frozenset(
    {"RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TF_CONFIG"}
    | {"HIVED_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "TINI_KILL_PROCESS_GROUP"}
)
# They steer the node's own programs that start a container: only the node sets them.
NODE_PREFIXES = ("NVIDIA_", "LD_", "DOCKER_RESOURCE_")


def check(data: dict[str, Any]) -> list[Trouble]:
    skep = section(data, *map(str, SKEP))
    return [
        *_reserved_variables(skep),
        *_sources(skep),
        *_range(skep),
        *_credentials(data, skep),
    ]


def _reserved_variables(skep: dict[str, Any]) -> Iterator[Trouble]:
    for name in section(skep, "environment"):
        path = (*SKEP, "environment", name)
        if name.startswith(PLATFORM_PREFIXES) or name in PLATFORM_NAMES:
            message = f"{name[:100]} is set by the platform."
            yield Trouble("reserved_variable", message, path, at_key=True)
        elif name.startswith(NODE_PREFIXES):
            message = f"{name[:100]} is set by the node; export it in `commands` instead."
            yield Trouble("reserved_variable", message, path, at_key=True)


def _sources(skep: dict[str, Any]) -> Iterator[Trouble]:
    files = section(skep, "workingFiles")
    if not isinstance(skep.get("workingFiles"), dict):
        return
    given = [key for key in ("archive", "git") if files.get(key) is not None]
    if len(given) != 1:
        message = "Working files are an archive or a git commit: give one of them."
        yield Trouble("working_files_source", message, (*SKEP, "workingFiles"))


def _credentials(data: dict[str, Any], skep: dict[str, Any]) -> Iterator[Trouble]:
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
            yield Trouble("credentials_in_url", message, path)


def _filled(url: str, values: dict[str, Any]) -> str:
    try:
        return fill(url, values)
    except (TemplateError, TooMuchText):
        return ""


def _range(skep: dict[str, Any]) -> Iterator[Trouble]:
    fewest, most = (section(skep, "elastic").get(key) for key in ("min", "max"))
    if type(fewest) is int and type(most) is int and fewest > most:
        message = f"The fewest tasks ({fewest}) are more than the most ({most})."
        yield Trouble("invalid_value", message, (*SKEP, "elastic", "min"))
