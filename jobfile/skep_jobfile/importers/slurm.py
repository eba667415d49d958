"""From a batch script of Slurm to a job file.

Each node that the script asks for becomes one task with all that Slurm gives the script on a node;
`srun` starts the processes of that node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from skep_jobfile.importers import slurm_script
from skep_jobfile.importers.result import Converted, finished, refused
from skep_jobfile.importers.slurm_request import Request, looks_like_it, requested
from skep_jobfile.importers.slurm_script import ROLE, Shape

__all__ = ["Array", "array_over_nodes", "convert", "looks_like_it"]

IMAGE = "ubuntu:24.04"
GPUS_OF_A_NODE = 8  # where a script asks for GPUs, but for no number of nodes
MEMORY_OF_A_CPU_MB = 4096


@dataclass(frozen=True, slots=True)
class Array:
    """The indices of a job array, and how many of its jobs may run at the same time; 0 means all
    of them."""

    indices: tuple[int, ...]
    limit: int


def array_over_nodes(text: str) -> Array | None:
    """Return the array of a script whose jobs span several nodes each, and which is therefore
    several jobs here; None for any other script. Raises InvalidJobFile."""
    (request, *_), _ = requested(text)
    if not request.array or _shape(request).nodes == 1:
        return None
    return Array(tuple(request.array), request.array_limit)


def convert(text: str, array_index: int | None = None) -> Converted:
    """Return the job file of a batch script; of an array over several nodes that of one index.
    Raises InvalidJobFile for what sbatch would not take either."""
    requests, script = requested(text)
    request, *others = requests
    notes = request.notes
    shapes = [_shape(one) for one in requests]
    nodes = sum(shape.nodes for shape in shapes)
    if nodes > 1:
        request.note("steps", _STEPS, 1)
    if others:
        request.note("components", _COMPONENTS.format(len(requests)), request.lines["hetjob"])
    notes += slurm_script.habits(text, nodes)
    _choose_image(request, text)
    _lay_out_array(request, shapes[0], array_index)
    several = slurm_script.starts_several_programs(text)
    return finished(_job_file(requests, shapes, script, several=several), notes)


_COMPONENTS = (
    "The {} components became task roles of one job, which start together. The script runs in the "
    "first; `srun --het-group=N` starts processes in component N."
)


_STEPS = (
    "As in Slurm the script runs on the first node, and what follows srun on all of them; "
    "srun needs python3 in the image."
)


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


def _lay_out_array(request: Request, shape: Shape, index: int | None) -> None:
    """An array becomes one job whose tasks start one by one, each with its index. Where each of
    its jobs spans several nodes it is as many jobs, of which this is the one with `index`."""
    if not request.array:
        return
    line = request.lines["array"]
    if shape.nodes > 1:
        _choose_index(request, index, line)
        return
    message = (
        f"The {len(request.array)} jobs of the array became tasks of one job, which start as "
        "they find a place; a failed one does not end the others."
    )
    request.note("array", message, line)


def _choose_index(request: Request, index: int | None, line: int) -> None:
    indices = request.array
    if index is None or index not in indices:
        message = (
            f"Each of the {len(indices)} jobs of this array spans several nodes, so they are as "
            "many jobs here: `skep submit SCRIPT` submits them all, and `skep convert "
            f"--array-index {indices[0]} SCRIPT` prints one of them."
        )
        raise refused("several_jobs", message, line)
    request.variables |= {
        "SLURM_ARRAY_TASK_ID": str(index),
        "SLURM_ARRAY_TASK_COUNT": str(len(indices)),
        "SLURM_ARRAY_TASK_MIN": str(min(indices)),
        "SLURM_ARRAY_TASK_MAX": str(max(indices)),
    }
    request.name = f"{request.name[:240]}-{index}"
    request.array, request.array_limit = [], 0


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


def _job_file(
    requests: list[Request], shapes: list[Shape], script: str, *, several: bool
) -> dict[str, Any]:
    request, shape = requests[0], shapes[0]
    skep = {
        "maxDuration": request.max_duration_s,
        "checkpoint": request.checkpoint,
        "environment": request.environment,
        "workDir": request.work_dir,
        "dependsOn": request.depends_on,
        "taskRoles": {ROLE: {"parallelism": request.array_limit}} if request.array_limit else None,
    }
    skep = {key: value for key, value in skep.items() if value}
    run = slurm_script.commands(script, shapes, request.variables, steps=several)
    role = _role(shape, [*slurm_script.array_index(request.array), *run])
    role["instances"] = len(request.array) or shape.nodes
    roles, images = {ROLE: role}, {"image": request.image}
    for number, other in enumerate(requests[1:], 1):
        commands = slurm_script.component_commands(shapes, number, request.variables)
        roles[other.role] = _role(shapes[number], commands)
        if other.image and other.image != request.image:
            roles[other.role]["dockerImage"] = f"image{number}"
            images[f"image{number}"] = other.image
    extras: dict[str, Any] = {"skep": skep} if skep else {}
    if request.array:
        role["completion"] = {"minFailedInstances": -1, "minSucceededInstances": -1}
        extras["gangAllocation"] = False
    if sum(one.nodes for one in shapes) > 1 and any(
        note.code == "mpirun" for note in request.notes
    ):
        extras["com.microsoft.pai.runtimeplugin"] = [{"plugin": "ssh"}]
    return {
        "protocolVersion": 2,
        "name": request.name,
        "type": "job",
        "prerequisites": [
            {"type": "dockerimage", "name": name, "uri": uri} for name, uri in images.items()
        ],
        "taskRoles": roles,
        "defaults": {"virtualCluster": request.virtual_cluster},
        **({"extras": extras} if extras else {}),
    }


def _role(shape: Shape, commands: list[str]) -> dict[str, Any]:
    resources = {"cpu": shape.cpus, "memoryMB": shape.memory_mb, "gpu": shape.gpus}
    return {
        "instances": shape.nodes,
        "dockerImage": "image",
        "resourcePerInstance": resources,
        "commands": commands,
    }
