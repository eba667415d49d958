"""From a batch script of Slurm to a job file.

Each node that the script asks for becomes one task with all that Slurm gives the script on a node;
`srun` starts the processes of that node.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from skep_jobfile.importers import sbatch_lines, slurm_script, slurm_sizes
from skep_jobfile.importers.result import Converted, Note, finished, refused
from skep_jobfile.importers.sbatch_lines import Option
from skep_jobfile.importers.slurm_notes import LEFT_OUT, UNKNOWN
from skep_jobfile.importers.slurm_script import ROLE, Shape
from skep_jobfile.skep_extras import MAX_DURATION_S, MAX_GRACE_S, Folder

IMAGE = "ubuntu:24.04"
GPUS_OF_A_NODE = 8  # where a script asks for GPUs, but for no number of nodes
MEMORY_OF_A_CPU_MB = 4096
SIGNALS = {"1": "SIGHUP", "2": "SIGINT", "10": "SIGUSR1", "12": "SIGUSR2", "15": "SIGTERM"}
LEAD_S = 60  # of --signal
VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def looks_like_it(text: str) -> bool:
    has_lines = re.search(r"^#SBATCH\s", text, re.MULTILINE)
    return bool(has_lines) and not re.search(r"^protocolVersion\s*:", text, re.MULTILINE)


def convert(text: str) -> Converted:
    """Raises InvalidJobFile for what sbatch would not take either."""
    if not text.startswith("#!") and not looks_like_it(text):
        message = "A batch script begins with #! and has #SBATCH lines; this one has neither."
        raise refused("unknown_format", message)
    options, notes, script = sbatch_lines.split(text)
    if not script.strip():
        raise refused("empty", "The script has no commands.")
    request = Request(notes=notes)
    for option in options:
        _read(request, option)
    shape = _shape(request)
    if shape.nodes > 1:
        request.note("steps", _STEPS, 1)
    notes += slurm_script.habits(text, shape.nodes)
    _choose_image(request, text)
    _lay_out_array(request, shape)
    return finished(_job_file(request, shape, script), notes)


_STEPS = (
    "As in Slurm the script runs on the first node, and what follows srun on all of them; "
    "srun needs python3 in the image."
)


@dataclass
class Request:
    """What the #SBATCH lines ask for; 0, None and "": nothing."""

    notes: list[Note]
    name: str = "slurm-job"
    virtual_cluster: str = "default"
    nodes: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    gpus: dict[str, int] = field(default_factory=dict)
    memory_mb: dict[str, int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)  # where each option was told last
    max_duration_s: int = 0
    checkpoint: dict[str, Any] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # of Slurm
    work_dir: str = ""
    image: str = ""
    array: list[int] = field(default_factory=list)

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
    message = f"The partition became the virtual cluster {first[:100]}: `skep vc` lists yours."
    if others:
        message += " A job has one; the others were left out."
    request.note("virtual_cluster", message, option.line)


def _nodes(request: Request, option: Option) -> None:
    found = slurm_sizes.nodes(option.value)
    if found is None:
        raise _wrong(option)
    request.nodes, most = found
    if most > request.nodes:
        message = f"A gang has a fixed size: it takes the least, {request.nodes}."
        request.note("fixed_size", message, option.line)


def _number(request: Request, option: Option) -> None:
    found = slurm_sizes.whole(option.value)
    if not found:
        raise _wrong(option)
    request.numbers[option.name] = found


def _gpus(request: Request, option: Option) -> None:
    found = slurm_sizes.gpus(option.value)
    if found is None:
        raise _wrong(option)
    request.gpus[option.name] = found[1]
    _note_kind(request, found[0], option.line)


def _gres(request: Request, option: Option) -> None:
    found, others = slurm_sizes.gres_gpus(option.value)
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
            f"{ROLE}.skuType to the name that `skep nodes` shows."
        )
        request.note("gpu_type", message, line)


def _memory(request: Request, option: Option) -> None:
    found = slurm_sizes.memory_mb(option.value)
    if found is None:
        raise _wrong(option)
    request.memory_mb[option.name] = found


def _time(request: Request, option: Option) -> None:
    found = slurm_sizes.seconds(option.value)
    if found is None:
        raise _wrong(option)
    request.max_duration_s = min(found, MAX_DURATION_S)


def _signal(request: Request, option: Option) -> None:
    flags, _, rest = option.value.rpartition(":")
    word, _, lead = rest.partition("@")
    signal = SIGNALS.get(word, f"SIG{word.upper().removeprefix('SIG')}")
    lead_s = slurm_sizes.whole(lead) if lead else LEAD_S
    if lead_s is None or flags.strip("BR"):
        raise _wrong(option)
    if signal not in SIGNALS.values():
        message = f"A checkpoint signal is one of {', '.join(SIGNALS.values())}: left out."
        request.note("not_carried_over", message, option.line)
        return
    request.checkpoint = {"signal": signal, "grace": min(lead_s, MAX_GRACE_S)}
    message = (
        f"{signal} comes when the job has to make room, {lead_s} s before its end, to all "
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
    indices = slurm_sizes.indices(option.value)
    if indices is None:
        raise _wrong(option)
    request.array = indices
    limit = option.value.partition("%")[2]
    if limit:
        message = (
            f"At most {limit[:20]} at a time cannot be said here: as many run as find a place."
        )
        request.note("not_carried_over", message, option.line)


def _container_image(request: Request, option: Option) -> None:
    """As pyxis writes it: `registry#image:tag`."""
    request.image = option.value.removeprefix("docker://").replace("#", "/")


def _nothing(request: Request, option: Option) -> None:
    """Always so here, or it concerns sbatch alone."""


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
    "container-image": _container_image,
    **dict.fromkeys(("parsable", "quiet", "verbose", "requeue"), _nothing),
}


def _shape(request: Request) -> Shape:
    numbers, gpus = request.numbers, request.gpus
    tasks = numbers.get("ntasks", 0) or _tasks_by_gpus(request)
    nodes = request.nodes or _nodes_needed(request, tasks)
    per_node = numbers.get("ntasks-per-node") or -(-tasks // nodes) or 1
    if tasks and per_node * nodes != tasks:
        message = f"All nodes are equal here: {nodes} x {per_node} processes instead of {tasks}."
        request.note("equal_nodes", message, request.lines.get("ntasks", 1))
    per_task = gpus.get("gpus-per-task", 0)
    of_node = gpus.get("gpus-per-node") or per_task * per_node
    of_node = of_node or -(-gpus.get("gpus", 0) // nodes)
    per_cpu_task = numbers.get("cpus-per-task", 1)
    cpus = numbers.get("cpus-per-gpu", 0) * of_node or per_cpu_task * per_node
    memory_mb = _memory_of_node(request, cpus, of_node)
    return Shape(nodes, per_node, per_cpu_task, cpus, of_node, per_task, memory_mb)


def _tasks_by_gpus(request: Request) -> int:
    """--gpus with --gpus-per-task, or with --ntasks-per-gpu, says how many tasks there are."""
    total = request.gpus.get("gpus", 0)
    per_task = request.gpus.get("gpus-per-task", 0)
    if per_task and total:
        return total // per_task
    return total * request.numbers.get("ntasks-per-gpu", 0)


def _nodes_needed(request: Request, tasks: int) -> int:
    per_node = request.numbers.get("ntasks-per-node", 0)
    gpus = request.gpus.get("gpus", 0) or request.gpus.get("gpus-per-task", 0) * tasks
    if per_node and tasks:
        return -(-tasks // per_node)
    nodes = max(1, -(-gpus // GPUS_OF_A_NODE))
    if tasks > 1 or nodes > 1:
        line = request.lines.get("ntasks") or request.lines.get("gpus") or 1
        message = f"Slurm may choose how many nodes; here it is {nodes}, which is `instances`."
        request.note("nodes_chosen", message, line)
    return nodes


def _memory_of_node(request: Request, cpus: int, gpus: int) -> int:
    asked = request.memory_mb
    found = asked.get("mem") or asked.get("mem-per-cpu", 0) * cpus
    found = found or asked.get("mem-per-gpu", 0) * gpus
    if not found:
        found = MEMORY_OF_A_CPU_MB * cpus
        why = "All of a node's memory" if "mem" in asked else "The partition's default memory"
        message = f"{why} is not known here: it is {found} MiB, {MEMORY_OF_A_CPU_MB} per CPU."
        request.note("memory_chosen", message, request.lines.get("mem", 1))
    return found


def _lay_out_array(request: Request, shape: Shape) -> None:
    """An array becomes one job whose tasks start one by one; each has its index."""
    if not request.array:
        return
    if shape.nodes > 1:
        index = request.array[0]
        request.variables["SLURM_ARRAY_TASK_ID"] = str(index)
        request.array = []
        message = (
            f"This job is the one with index {index} alone: arrays of jobs over several nodes are "
            "submitted one by one, with another SLURM_ARRAY_TASK_ID."
        )
    else:
        message = (
            f"The {len(request.array)} jobs of the array became tasks of one job, which start as "
            "they find a place; a failed one does not end the others."
        )
    request.note("array", message, request.lines["array"])


def _choose_image(request: Request, text: str) -> None:
    """From srun, where pyxis is used there."""
    lines = text.replace("\\\n", "  ").split("\n")
    named = next(filter(None, map(_image_of_step, lines)), "")
    if named and not request.image and "$" not in named:
        request.image = named.strip("\"'").removeprefix("docker://").replace("#", "/")
    if not request.image:
        request.image = IMAGE
        message = f"Slurm names no image: {IMAGE} stands in prerequisites; put yours there."
        request.note("choose_image", message, 1)


def _image_of_step(line: str) -> str:
    """What `srun --container-image=…` says in this line. Without a pattern over the whole line,
    which would take quadratic time where `srun` stands in it many times."""
    step = re.search(r"\bsrun\b", line.partition("#")[0])
    if step is None:
        return ""
    _, option, rest = line[step.end() :].partition("--container-image")
    words = rest[1:].split(maxsplit=1)
    return words[0] if option and rest[:1] in ("=", " ") and words else ""


def _job_file(request: Request, shape: Shape, script: str) -> dict[str, Any]:
    skep = {
        "maxDuration": request.max_duration_s,
        "checkpoint": request.checkpoint,
        "environment": request.environment,
        "workDir": request.work_dir,
    }
    skep = {key: value for key, value in skep.items() if value}
    role = {
        "instances": len(request.array) or shape.nodes,
        "dockerImage": "image",
        "resourcePerInstance": {
            "cpu": shape.cpus,
            "memoryMB": shape.memory_mb,
            "gpu": shape.gpus,
        },
        "commands": [
            *slurm_script.array_index(request.array),
            *slurm_script.commands(script, shape, request.variables),
        ],
    }
    extras: dict[str, Any] = {"skep": skep} if skep else {}
    if request.array:
        role["completion"] = {"minFailedInstances": -1, "minSucceededInstances": -1}
        extras["gangAllocation"] = False
    if shape.nodes > 1 and any(note.code == "mpirun" for note in request.notes):
        extras["com.microsoft.pai.runtimeplugin"] = [{"plugin": "ssh"}]
    return {
        "protocolVersion": 2,
        "name": request.name,
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": request.image}],
        "taskRoles": {ROLE: role},
        "defaults": {"virtualCluster": request.virtual_cluster},
        **({"extras": extras} if extras else {}),
    }
