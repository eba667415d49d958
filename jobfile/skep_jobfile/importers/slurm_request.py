"""What the #SBATCH lines of a batch script ask for, by component of the job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from skep_jobfile.importers import slurm_options
from skep_jobfile.importers.result import Note, refused
from skep_jobfile.importers.slurm_options import LEFT_OUT, NEXT_COMPONENT, UNKNOWN, Option
from skep_jobfile.importers.slurm_script import ROLE, role_name
from skep_jobfile.skep_extras import (
    MAX_DEPENDENCIES,
    MAX_DURATION_S,
    MAX_JOB_REFERENCE,
    DependencyCondition,
    Folder,
)
from skep_limits import MAX_GRACE_S

CONDITIONS: tuple[str, ...] = get_args(DependencyCondition)
SIGNALS = {"1": "SIGHUP", "2": "SIGINT", "10": "SIGUSR1", "12": "SIGUSR2", "15": "SIGTERM"}
LEAD_S = 60  # of --signal
VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
SINGLETON = "singleton"  # code of the note that the job waits for others of its name
MAX_COMPONENTS = 20  # of a heterogeneous job
# What each component of a heterogeneous job asks for itself; the rest is of the whole job.
OF_COMPONENT = frozenset({
    "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu",
    "gpus", "gpus-per-node", "gpus-per-task", "gres", "mem", "mem-per-cpu", "mem-per-gpu",
    "container-image",
})  # fmt: skip


def looks_like_it(text: str) -> bool:
    has_lines = re.search(r"^#SBATCH\s", text, re.MULTILINE)
    return bool(has_lines) and not re.search(r"^protocolVersion\s*:", text, re.MULTILINE)


def requested(text: str) -> tuple[list[Request], str]:
    """Return what the #SBATCH lines ask for, by component of the job, and the script."""
    if not text.startswith("#!") and not looks_like_it(text):
        message = "A batch script begins with #! and has #SBATCH lines; this one has neither."
        raise refused("unknown_format", message)
    options, notes, script = slurm_options.split(text)
    if not script.strip():
        raise refused("empty", "The script has no commands.")
    requests = [Request(notes=notes)]
    for option in options:
        if option.name == NEXT_COMPONENT:
            requests[0].lines.setdefault(option.name, option.line)
            requests.append(Request(notes=notes, role=role_name(len(requests))))
        elif len(requests) > 1 and option.name not in OF_COMPONENT:
            message = f"--{option.name[:100]}: of the first component alone; it holds for the job."
            requests[0].note("not_carried_over", message, option.line)
        else:
            _read(requests[-1], option)
    _check_components(requests)
    return requests, script


def _check_components(requests: list[Request]) -> None:
    first = requests[0]
    if len(requests) > MAX_COMPONENTS:
        message = f"A heterogeneous job has up to {MAX_COMPONENTS} components."
        raise refused("not_supported", message, first.lines["hetjob"])
    if len(requests) > 1 and first.array:
        message = (
            "A heterogeneous job cannot be an array, here as in Slurm: submit it once for each "
            "index, with `skep submit --name`."
        )
        raise refused("not_supported", message, first.lines["array"])


@dataclass
class Request:
    """What the #SBATCH lines ask for; 0, None and "": nothing."""

    notes: list[Note]
    role: str = ROLE
    name: str = "slurm-job"
    virtual_cluster: str = "default"
    nodes: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    gpus: dict[str, int] = field(default_factory=dict)
    memory_mb: dict[str, int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)  # where each option was given last
    max_duration_s: int = 0
    checkpoint: dict[str, Any] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # of Slurm
    work_dir: str = ""
    image: str = ""
    array: list[int] = field(default_factory=list)
    array_limit: int = 0  # jobs of the array that may run at the same time
    depends_on: list[dict[str, str]] = field(default_factory=list)

    def note(self, code: str, message: str, line: int) -> None:
        self.notes.append(Note(code, message, line))


def _read(request: Request, option: Option) -> None:
    request.lines[option.name] = option.line
    if option.name in READERS:
        READERS[option.name](request, option)
    elif option.name in LEFT_OUT:
        request.note("not_carried_over", f"--{option.name}: {LEFT_OUT[option.name]}", option.line)
    else:
        request.note("not_carried_over", f"--{option.name[:100]}: {UNKNOWN}", option.line)


def _wrong(option: Option) -> Exception:
    message = f"{option.value[:100]!r} is no value of --{option.name}."
    return refused("invalid_value", message, option.line)


def _name(request: Request, option: Option) -> None:
    name = re.sub("[^a-zA-Z0-9_-]+", "-", option.value)[:255].strip("-")
    request.name = name or request.name
    request.variables["SLURM_JOB_NAME"] = option.value
    if name != option.value:
        request.note("renamed", f"A name has letters, digits, - and _: it is {name}.", option.line)


def _partition(request: Request, option: Option) -> None:
    first, *others = option.value.split(",")
    request.virtual_cluster = first or "default"
    request.variables["SLURM_JOB_PARTITION"] = first
    message = f"The partition became the virtual cluster {first[:100]}: `skep vcs` lists yours."
    if others:
        message += " A job has one; the others were left out."
    request.note("virtual_cluster", message, option.line)


def _nodes(request: Request, option: Option) -> None:
    found = slurm_options.nodes(option.value)
    if found is None:
        raise _wrong(option)
    request.nodes, most = found
    if most > request.nodes:
        message = f"A gang has a fixed size: it takes the least, {request.nodes}."
        request.note("fixed_size", message, option.line)


def _number(request: Request, option: Option) -> None:
    found = slurm_options.whole(option.value)
    if not found:
        raise _wrong(option)
    request.numbers[option.name] = found


def _gpus(request: Request, option: Option) -> None:
    found = slurm_options.gpus(option.value)
    if found is None:
        raise _wrong(option)
    request.gpus[option.name] = found[1]
    _note_kind(request, found[0], option.line)


def _gres(request: Request, option: Option) -> None:
    found, others = slurm_options.gres_gpus(option.value)
    if found is not None:
        request.gpus["gpus-per-node"] = found[1]
        _note_kind(request, found[0], option.line)
    for other in filter(None, others):
        message = f"The generic resource {other[:100]} has no counterpart here."
        request.note("not_carried_over", message, option.line)


def _note_kind(request: Request, kind: str, line: int) -> None:
    if kind:
        message = (
            f"Any model of GPU is taken. For {kind[:100]}, set extras.hivedScheduler.taskRoles."
            f"{request.role}.skuType to the name that `skep nodes` shows."
        )
        request.note("gpu_type", message, line)


def _memory(request: Request, option: Option) -> None:
    found = slurm_options.memory_mb(option.value)
    if found is None:
        raise _wrong(option)
    request.memory_mb[option.name] = found


def _time(request: Request, option: Option) -> None:
    found = slurm_options.seconds(option.value)
    if found is None:
        raise _wrong(option)
    request.max_duration_s = min(found, MAX_DURATION_S)


def _signal(request: Request, option: Option) -> None:
    flags, _, rest = option.value.rpartition(":")
    word, _, lead = rest.partition("@")
    signal = SIGNALS.get(word, f"SIG{word.upper().removeprefix('SIG')}")
    lead_s = slurm_options.whole(lead) if lead else LEAD_S
    if lead_s is None or flags.strip("BR"):
        raise _wrong(option)
    if signal not in SIGNALS.values():
        message = f"A checkpoint signal is one of {', '.join(SIGNALS.values())}: left out."
        request.note("not_carried_over", message, option.line)
        return
    request.checkpoint = {"signal": signal, "grace": min(lead_s, MAX_GRACE_S)}
    message = (
        f"{signal} comes when the job is preempted, {lead_s} s before its end, to all "
        "processes of a task; at the end of its time it gets SIGTERM only."
    )
    request.note("checkpoint", message, option.line)


def _export(request: Request, option: Option) -> None:
    for part in filter(None, _commas(option.value)):
        name, given, value = part.partition("=")
        if given and VARIABLE.fullmatch(name):
            request.environment[name] = value
        elif name.upper() not in ("ALL", "NONE", "NIL"):
            message = f"{name[:100]} of your own shell is not sent: write {name[:100]}=VALUE."
            request.note("not_carried_over", message, option.line)


def _commas(text: str) -> list[str]:
    """Split at commas outside of quotes."""
    reader = shlex.shlex(text, posix=True)
    reader.whitespace, reader.whitespace_split, reader.commenters = ",", True, ""
    try:
        return list(reader)
    except ValueError:
        return text.split(",")


def _chdir(request: Request, option: Option) -> None:
    try:
        request.work_dir = TypeAdapter(Folder).validate_python(option.value)
        message = "This folder has to be in the image, or among the working files."
        request.note("work_dir", message, option.line)
    except ValidationError:
        message = "Name a folder of the container in extras.skep.workDir."
        request.note("not_carried_over", f"--chdir: {message}", option.line)


def _array(request: Request, option: Option) -> None:
    indices = slurm_options.indices(option.value)
    if indices is None:
        raise _wrong(option)
    request.array = indices
    _, separator, limit = option.value.partition("%")
    if separator:
        request.array_limit = slurm_options.whole(limit) or 0
        if not request.array_limit:
            raise _wrong(option)


def _dependency(request: Request, option: Option) -> None:
    """Slurm's TYPE:ID[:ID...][,TYPE:ID...]; a job id has to become the name or id of a job here."""
    if "?" in option.value:
        message = "A job waits for all of its dependencies: write them with commas, not with `?`."
        raise refused("not_supported", message, option.line)
    for part in filter(None, option.value.split(",")):
        condition, _, jobs = part.partition(":")
        if condition == "singleton":
            message = (
                "--dependency=singleton: `skep submit --force-name-suffix` lets the job wait for "
                "your unfinished jobs of this name; elsewhere name them in extras.skep.dependsOn."
            )
            request.note(SINGLETON, message, option.line)
        elif condition not in CONDITIONS or not jobs:
            raise _wrong_dependency(option, condition)
        else:
            _depend(request, option, condition, jobs.split(":"))


def _depend(request: Request, option: Option, condition: str, jobs: list[str]) -> None:
    for job in jobs:
        name, delay, _ = job.partition("+")
        if delay:
            message = f"The delay of {condition}:{job[:50]} was left out: it starts at once."
            request.note("not_carried_over", message, option.line)
        if not name or len(name) > MAX_JOB_REFERENCE or len(request.depends_on) >= MAX_DEPENDENCIES:
            raise _wrong(option)
        request.depends_on.append({"job": name, "condition": condition})
        if name.isdecimal():
            message = (
                f"{name} is a job id of Slurm: put the name or the id of the job here into "
                "extras.skep.dependsOn, or leave the option out and use `skep submit --after`."
            )
            request.note("dependency", message, option.line)


def _wrong_dependency(option: Option, condition: str) -> Exception:
    message = (
        f"{condition[:50]!r} is no condition here: use {', '.join(CONDITIONS)}, each with the "
        "name or the id of a job."
    )
    if condition == "aftercorr":
        message = (
            "aftercorr: tasks of an array do not wait for single tasks of another one. Let the "
            "whole job wait, by afterok:JOB, or submit the indices as jobs of their own."
        )
    return refused("not_supported", message, option.line)


def _container_image(request: Request, option: Option) -> None:
    """Set the image, as pyxis writes it: `registry#image:tag`."""
    request.image = option.value.removeprefix("docker://").replace("#", "/")


def _nothing(request: Request, option: Option) -> None:
    """Ignore the option: it is always so here, or it concerns sbatch alone."""


READERS: dict[str, Callable[[Request, Option], None]] = {
    "job-name": _name,
    "partition": _partition,
    "nodes": _nodes,
    **dict.fromkeys(("ntasks", "ntasks-per-node", "ntasks-per-gpu"), _number),
    **dict.fromkeys(("cpus-per-task", "cpus-per-gpu"), _number),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task"), _gpus),
    "gres": _gres,
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), _memory),
    "time": _time,
    "signal": _signal,
    "export": _export,
    "chdir": _chdir,
    "array": _array,
    "dependency": _dependency,
    "container-image": _container_image,
    **dict.fromkeys(("parsable", "quiet", "verbose", "requeue"), _nothing),
}
