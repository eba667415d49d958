"""A whole job file from a few words: what `skep run` submits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from skep_jobfile import parse, writing
from skep_jobfile.framework import torchrun_exports
from skep_jobfile.skep_extras import DependencyCondition

ROLE = "worker"
CONDITIONS: tuple[str, ...] = get_args(DependencyCondition)
IMAGE = "ubuntu:24.04"
# Of a task that says nothing else: by GPU, and of one without.
CPUS_OF_A_GPU, MEMORY_OF_A_GPU_MB = 8, 64 * 1024
CPUS, MEMORY_MB = 1, 2 * 1024
LAUNCHERS = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
UNITS = {"": 1, "m": 1, "g": 1024, "t": 1024 * 1024}


@dataclass(frozen=True, slots=True)
class Run:
    """Each node is one task. Amounts that are 0 or "" are chosen; `gpus` are of each node."""

    command: Sequence[str]
    name: str = ""
    virtual_cluster: str = ""
    nodes: int = 1
    gpus: int = 0
    gpu_type: str = ""
    image: str = ""
    cpus: int = 0
    memory_mb: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    max_duration: str = ""  # such as 2h
    priority_class: str = ""
    tags: Sequence[str] = ()
    archive: str = ""  # hash of the working files
    after: Sequence[Mapping[str, str]] = ()  # jobs that it waits for, as in dependsOn


def job_file(run: Run) -> str:
    """Raises InvalidJobFile, with all that is wrong, for values that a job file does not take."""
    extras = {
        "hivedScheduler": _placing(run),
        "tags": list(run.tags),
        "skep": _own_fields(run),
    }
    extras = {key: value for key, value in extras.items() if value}
    text = writing.dump({
        "protocolVersion": 2,
        "name": run.name or default_name(run.command),
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": run.image or IMAGE}],
        "taskRoles": {ROLE: _role(run)},
        **({"defaults": {"virtualCluster": run.virtual_cluster}} if run.virtual_cluster else {}),
        **({"extras": extras} if extras else {}),
    })  # fmt: skip
    parse(text)
    return text


def default_name(command: Sequence[str]) -> str:
    """Name a job after the script that it runs, else after the program: `train` for `torchrun
    train.py`."""
    scripts = [word for word in command if word.endswith((".py", ".sh")) and word[0] != "-"]
    word = (scripts or [*command, "job"])[0].rstrip("/").rpartition("/")[2]
    name = re.sub(r"\.(py|sh)$", "", word.split()[0] if word.split() else "job")
    return re.sub("[^a-zA-Z0-9_-]+", "-", name).strip("-")[:100] or "job"


def memory_mb(text: str) -> int:
    """Parse an amount of memory into MiB: `512`, `64g`, `1.5T`. Raises ValueError."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([mgt]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise ValueError(f"{text[:100]!r} is no amount of memory, such as 64g")
    return max(1, round(float(found[1]) * UNITS[found[2]]))


def _role(run: Run) -> dict[str, Any]:
    return {
        "instances": run.nodes,
        "dockerImage": "image",
        "resourcePerInstance": {
            "cpu": run.cpus or CPUS_OF_A_GPU * run.gpus or CPUS,
            "memoryMB": run.memory_mb or MEMORY_OF_A_GPU_MB * run.gpus or MEMORY_MB,
            "gpu": run.gpus,
        },
        "commands": _commands(run),
    }


def _commands(run: Run) -> list[str]:
    """One word is a line of shell, as people quote it; several are words."""
    words = list(run.command)
    line = words[0] if len(words) == 1 else shlex.join(words)
    programs = {word.rpartition("/")[2] for word in line.split()}
    if LAUNCHERS & programs and "--standalone" not in programs:
        return [torchrun_exports(max(1, run.gpus)), line]
    return [line]


def _placing(run: Run) -> dict[str, Any]:
    return {
        **({"jobPriorityClass": run.priority_class} if run.priority_class else {}),
        **({"taskRoles": {ROLE: {"skuType": run.gpu_type}}} if run.gpu_type else {}),
    }


def _own_fields(run: Run) -> dict[str, Any]:
    found = {
        "maxDuration": run.max_duration,
        "environment": dict(run.environment),
        "workingFiles": {"archive": run.archive} if run.archive else None,
        "dependsOn": [dict(one) for one in run.after],
    }
    return {key: value for key, value in found.items() if value}


def dependency(text: str) -> dict[str, str]:
    """Read `JOB` or `CONDITION:JOB`, as an entry of `dependsOn`. Raises ValueError."""
    condition, separator, job = text.partition(":")
    if not separator:
        return {"job": text, "condition": "afterok"}
    if condition not in CONDITIONS or not job:
        raise ValueError(f"{text[:100]!r} is not [CONDITION:]JOB with {', '.join(CONDITIONS)}")
    return {"job": job, "condition": condition}


def with_archive(text: str, archive: str) -> str:
    """Return the job file with other working files. Raises InvalidJobFile."""

    def changed(own: dict[str, Any]) -> dict[str, Any]:
        files = {**(own.get("workingFiles") or {}), "archive": archive}
        files.pop("git", None)
        return {**own, "workingFiles": files}

    return _with_own(text, changed)


def with_dependencies(text: str, after: Sequence[Mapping[str, str]]) -> str:
    """Return the job file with these entries behind those of its `dependsOn`. Raises
    InvalidJobFile."""
    return _with_own(
        text,
        lambda own: {**own, "dependsOn": [*(own.get("dependsOn") or []), *map(dict, after)]},
    )


def _with_own(text: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    _, document = parse(text)
    extras = dict(document.data.get("extras") or {})
    own = change(dict(extras.get("skep") or {}))
    return writing.dump({**document.data, "extras": {**extras, "skep": own}})
