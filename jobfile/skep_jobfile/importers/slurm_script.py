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
    word: re.Pattern[str]  # with which a command begins; empty: any command
    message: str
    option: re.Pattern[str] | None = None  # that stands behind the word, in front of a remark
    only_many_nodes: bool = False

    def shows(self, command: str) -> bool:
        """In linear time: one pattern for word and options would take quadratic time for a line
        in which the word stands many times."""
        found = self.word.match(command)
        if found is None or self.option is None:
            return found is not None
        return self.option.search(command.partition("#")[0], found.end()) is not None


def _habit(code: str, word: str, message: str, option: str = "", *, many: bool = False) -> Habit:
    return Habit(code, re.compile(word), message, re.compile(option) if option else None, many)


IN_A_CONTAINER = (
    "The task is in a container already: name this image under prerequisites, and run the command "
    "itself."
)
MAX_LINE = 2000  # characters that are looked at
STARTS = re.compile(r"[;&|(]|\b(?:then|do|else|exec|time)\b")
PORT_OPTION = re.compile(r"--rdzv[-_]endpoint|--master[-_]port")
HABITS = (
    _habit("modules", r"(?:module\s|ml\s)",
           "There are no modules: choose an image that has this software."),
    _habit("slurm_command", r"(?:sbatch|salloc|scancel|squeue|sacct|sinfo|sbcast)\b",
           "There is no Slurm: submit further jobs with `skep submit`, or by the SDK."),
    _habit("step_on_some_nodes", r"srun\b",
           "This step takes some nodes or tasks; here srun runs its command for all of them: put "
           'it behind `if [ "$SLURM_NODEID" = 0 ]`, or make it a task role.',
           r"\s(?:-N\s*\d|--nodes\b|-n\s*\d|--ntasks[= ]|-w\b|--nodelist\b)"),
    _habit("many_programs", r"srun\b",
           "srun --multi-prog is not known: make each program a task role.", r"\s--multi-prog\b"),
    _habit("mpirun", r"(?:mpirun|mpiexec)\b",
           "Every task runs the whole script: put mpirun behind `if [ \"$SLURM_NODEID\" = 0 ]`; "
           "its hosts are in $SKEP_HOSTFILE.", many=True),
    _habit("containers", r"(?:singularity|apptainer|enroot|docker|podman)\s", IN_A_CONTAINER),
    _habit("containers", r"srun\s", IN_A_CONTAINER,
           r"(?:singularity|apptainer|enroot|docker|podman)\s"),
)  # fmt: skip
OF_WHOLE_LINES = (
    ("master_port", lambda line: _names_port(line),
     "Only the port $MASTER_PORT of $MASTER_ADDR is reserved; both are set already.", True),
    ("container_mounts", lambda line: "--container-mounts" in line,
     "Mounts are left out: get data by the commands, or send files by "
     "extras.skep.workingFiles.", False),
)  # fmt: skip


def habits(text: str, nodes: int) -> Iterator[Note]:
    """Of the whole text, so that the lines are those of its author."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            continue
        line = line[:MAX_LINE]
        found = dict(_shown(line, nodes))
        for code, message in found.items():
            yield Note(code, message, number)


def _shown(line: str, nodes: int) -> Iterator[tuple[str, str]]:
    commands = [command.lstrip() for command in STARTS.split(line)]
    for habit in HABITS:
        applies = nodes > 1 or not habit.only_many_nodes
        if applies and any(habit.shows(command) for command in commands):
            yield habit.code, habit.message
    for code, shows, message, only_many_nodes in OF_WHOLE_LINES:
        if (nodes > 1 or not only_many_nodes) and shows(line):
            yield code, message


def _names_port(line: str) -> bool:
    """Whether a number of a port is written down."""
    words = line.split()
    for word, following in zip(words, [*words, ""][1:], strict=True):
        _, assigned, value = word.partition("MASTER_PORT=")
        if assigned and any(char.isdigit() for char in value):
            return True
        option = PORT_OPTION.search(word)
        if option is not None:
            _, equals, value = word[option.end() :].rpartition("=")
            given = value if equals else following
            port = given.rpartition(":")[2] if "rdzv" in option.group() else given
            if port[:1].isdigit() and (":" in given or "rdzv" not in option.group()):
                return True
    return False
