"""The shell around a batch script: Slurm's variables by ours, and `srun` for one task per node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from skep_jobfile.importers import shell_text
from skep_jobfile.importers.result import Note

ROLE = "worker"
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})

# The values stand in double quotes: only the shell of a task knows them.
FROM_OURS = {
    "SLURM_JOB_ID": "$SKEP_JOB_ID",
    "SLURM_JOBID": "$SKEP_JOB_ID",
    "SLURM_JOB_USER": "$PAI_USER_NAME",
    "SLURM_JOB_NODELIST": f"$(echo \"$PAI_TASK_ROLE_{ROLE}_HOST_LIST\" | sed 's/:[0-9]*//g')",
    "SLURM_NODELIST": "$SLURM_JOB_NODELIST",
    "SLURM_NODEID": "$PAI_TASK_INDEX",
    "SLURMD_NODENAME": "$PAI_CURRENT_CONTAINER_IP",
    "SLURM_SUBMIT_DIR": "$PWD",
}
# srun skips its options: some stand alone, all others have a value.
FUNCTIONS = """\
srun() {  # starts the tasks of this node, and fails as the worst of them
    while [ $# -gt 0 ]; do
        case $1 in
            --) shift; break ;;
            --*=*|-[EHIKOQXZklqsuv]*) shift ;;
            --contiguous|--disable-status|--exact|--exclusive|--help|--interactive) shift ;;
            --kill-on-bad-exit|--label|--no-*|--overcommit|--overlap|--oversubscribe) shift ;;
            --preserve-env|--pty|--quiet|--reboot|--spread-job|--unbuffered) shift ;;
            --use-min-nodes|--verbose|--whole) shift ;;
            --*|-?) shift 2 ;;
            -*) shift ;;
            *) break ;;
        esac
    done
    skep_pids= skep_local=0 skep_worst=0
    while [ "$skep_local" -lt "$SLURM_NTASKS_PER_NODE" ]; do
        (
            export SLURM_LOCALID="$skep_local"
            export SLURM_PROCID="$((SLURM_NODEID * SLURM_NTASKS_PER_NODE + skep_local))"
            export RANK="$SLURM_PROCID" WORLD_SIZE="$SLURM_NTASKS"
            export LOCAL_RANK="$skep_local" LOCAL_WORLD_SIZE="$SLURM_NTASKS_PER_NODE"
            if [ -n "${SLURM_GPUS_PER_TASK:-}" ]; then
                skep_gpu="$((skep_local * SLURM_GPUS_PER_TASK))" skep_gpus=
                while [ "$skep_gpu" -lt "$(((skep_local + 1) * SLURM_GPUS_PER_TASK))" ]; do
                    skep_gpus="$skep_gpus${skep_gpus:+,}$skep_gpu" skep_gpu="$((skep_gpu + 1))"
                done
                export CUDA_VISIBLE_DEVICES="$skep_gpus"
            fi
            exec "$@"
        ) &
        skep_pids="$skep_pids $!" skep_local="$((skep_local + 1))"
    done
    for skep_pid in $skep_pids; do
        skep_code=0
        wait "$skep_pid" || skep_code=$?
        if [ "$skep_code" -gt "$skep_worst" ]; then skep_worst="$skep_code"; fi
    done
    return "$skep_worst"
}
scontrol() {  # of it only: show hostnames
    case "${1:-} ${2:-}" in
        "show hostname"*) echo "${3:-$SLURM_JOB_NODELIST}" | tr ',' '\\n' ;;
        *) echo "scontrol $*: there is no Slurm here" >&2; return 1 ;;
    esac
}
module() { echo "module $*: there are no modules here" >&2; }
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """What each of the equal nodes has, and how many there are."""

    nodes: int
    tasks_per_node: int
    cpus_per_task: int
    cpus: int
    gpus: int
    gpus_per_task: int  # 0: all tasks of a node see all of its GPUs
    memory_mb: int


def commands(script: str, shape: Shape, extra: Mapping[str, str]) -> list[str]:
    """The variables, then the script as its first line wants it run."""
    program = _program(script)
    functions = FUNCTIONS if program[0].rpartition("/")[2] in SHELLS else ""
    text = script.partition("\n")[2] if script.startswith("#!") else script
    run = shell_text.run([*program, "-c"], functions + text.strip(), "SLURM_SCRIPT")
    return ["\n".join(_exports(shape, extra)), run]


def _program(script: str) -> list[str]:
    first = script.split("\n", 1)[0]
    words = first[2:].split() if first.startswith("#!") else []
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if word != "-S"]
    if not words:
        return ["/bin/sh"]
    # Where the image has it, whatever folder that is.
    return [words[0].rpartition("/")[2] or "sh", *words[1:]]


def _exports(shape: Shape, extra: Mapping[str, str]) -> Iterator[str]:
    tasks = shape.nodes * shape.tasks_per_node
    per_node = str(shape.tasks_per_node)
    known = {
        "SLURM_NNODES": str(shape.nodes),
        "SLURM_JOB_NUM_NODES": str(shape.nodes),
        "SLURM_NTASKS": str(tasks),
        "SLURM_NPROCS": str(tasks),
        "SLURM_NTASKS_PER_NODE": per_node,
        "SLURM_TASKS_PER_NODE": f"{per_node}(x{shape.nodes})" if shape.nodes > 1 else per_node,
        "SLURM_CPUS_PER_TASK": str(shape.cpus_per_task),
        "SLURM_CPUS_ON_NODE": str(shape.cpus),
        "SLURM_MEM_PER_NODE": str(shape.memory_mb),
    }
    if shape.gpus:
        known["SLURM_GPUS_ON_NODE"] = str(shape.gpus)
        known["SLURM_GPUS"] = str(shape.gpus * shape.nodes)
    if shape.gpus_per_task:
        known["SLURM_GPUS_PER_TASK"] = str(shape.gpus_per_task)
    for name, value in FROM_OURS.items():
        yield f'export {name}="{value}"'
    for name, value in {**known, **extra}.items():
        yield f"export {name}={shlex.quote(value)}"
    yield 'export SLURM_PROCID="$((SLURM_NODEID * SLURM_NTASKS_PER_NODE))" SLURM_LOCALID=0'


@dataclass(frozen=True, slots=True)
class Habit:
    """Something that batch scripts do and that is another thing here."""

    code: str
    pattern: re.Pattern[str]
    message: str
    only_many_nodes: bool = False


def _habit(code: str, pattern: str, message: str, *, many: bool = False) -> Habit:
    return Habit(code, re.compile(pattern), message, many)


START = r"(?:^|[;&|(]|\b(?:then|do|else|exec|time)\b)\s*"
HABITS = (
    _habit("modules", START + r"(?:module\s|ml\s)",
           "There are no modules: choose an image that has this software."),
    _habit("slurm_command", START + r"(?:sbatch|salloc|scancel|squeue|sacct|sinfo|sbcast)\b",
           "There is no Slurm: submit further jobs with `skep submit`, or by the SDK."),
    _habit("step_on_some_nodes",
           START + r"srun\b[^#]*\s(?:-N\s*\d|--nodes\b|-n\s*\d|--ntasks[= ]|-w\b|--nodelist\b)",
           "This step takes some nodes or tasks; here srun runs its command for all of them: put "
           'it behind `if [ "$SLURM_NODEID" = 0 ]`, or make it a task role.'),
    _habit("many_programs", START + r"srun\b[^#]*\s--multi-prog\b",
           "srun --multi-prog is not known: make each program a task role."),
    _habit("mpirun", START + r"(?:mpirun|mpiexec)\b",
           "Every task runs the whole script: put mpirun behind `if [ \"$SLURM_NODEID\" = 0 ]`; "
           "its hosts are in $SKEP_HOSTFILE.", many=True),
    _habit("containers", START + r"(?:srun\s.*)?(?:singularity|apptainer|enroot|docker|podman)\s",
           "The task is in a container already: name this image under prerequisites, and run the "
           "command itself."),
    _habit("master_port",
           r"\bMASTER_PORT=\S*\d|--rdzv[-_]endpoint\S*[= ]\S+:\d|--master[-_]port[= ]\d",
           "Only the port $MASTER_PORT of $MASTER_ADDR is reserved; both are set already.",
           many=True),
    _habit("container_mounts", r"--container-mounts\b",
           "Mounts are left out: get data by the commands, or send files by "
           "extras.skep.workingFiles."),
)  # fmt: skip


def habits(text: str, nodes: int) -> Iterator[Note]:
    """Of the whole text, so that the lines are those of its author."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            continue
        for habit in HABITS:
            if (nodes > 1 or not habit.only_many_nodes) and habit.pattern.search(line[:2000]):
                yield Note(habit.code, habit.message, number)
