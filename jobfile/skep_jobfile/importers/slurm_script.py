"""The shell around a batch script: Slurm's variables by ours, and `srun`.

On one node `srun` is a function of the shell. On several the script runs on the first one, as
Slurm does it, and `srun` is a program that starts steps on all of them (`slurm_steps.py`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from skep_jobfile.importers import shell_text
from skep_jobfile.importers.result import Note

ROLE = "worker"
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})

# The values stand in double quotes: only the shell of a task knows them.
FROM_OURS = {
    # A number, as scripts compute with it: the last eight digits of ours.
    "SLURM_JOB_ID": '$(id=${SKEP_JOB_ID##*-}; [ ${#id} -lt 12 ] && echo "$id" || '
    "printf %d 0x${id#????})",
    "SLURM_JOBID": "$SLURM_JOB_ID",
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
    exports = "\n".join(_exports(shape, extra))
    if shape.nodes == 1:
        run = shell_text.run([*program, "-c"], functions + text.strip(), "SLURM_SCRIPT")
        return [exports, run]
    others = functions.partition("scontrol()")
    run = shell_text.run([*program, "-c"], "".join(others[1:]) + text.strip(), "SLURM_SCRIPT")
    return [exports, *_over_nodes(run)]


def array_index(indices: Sequence[int]) -> list[str]:
    """Slurm's variables of an array, by the task's number in it."""
    if not indices:
        return []
    listed = " ".join(map(str, indices))
    return [
        f'set -- {listed}\nshift "$PAI_TASK_INDEX"\n'
        'export SLURM_ARRAY_TASK_ID="$1" SLURM_ARRAY_JOB_ID="$SKEP_JOB_ID"\n'
        f"export SLURM_ARRAY_TASK_COUNT={len(indices)} SLURM_ARRAY_TASK_MIN={min(indices)} "
        f"SLURM_ARRAY_TASK_MAX={max(indices)} PAI_TASK_INDEX=0\nset --"
    ]


def _over_nodes(run: str) -> list[str]:
    """The script on the first node, and a server of its steps on all others."""
    write = "cat > \"$skep_steps/steps.py\" <<'SKEP_STEPS'\n" + _steps() + "SKEP_STEPS"
    return [PREPARE, write, SERVE, f"skep_code=0\n(\n{run}\n) || skep_code=$?", END]


@cache
def _steps() -> str:
    """The program, without what only its readers here need."""
    text = files("skep_jobfile.importers").joinpath("slurm_steps.py").read_text(encoding="utf-8")
    return text.partition('"""\n\n')[2]


PREPARE = f"""\
command -v python3 >/dev/null || {{
    echo 'skep: srun over several nodes needs python3 in the image' >&2
    exit 127
}}
skep_steps=$(mktemp -d)
export SKEP_STEP_HOSTS="$PAI_TASK_ROLE_{ROLE}_HOST_LIST\""""
SERVE = """\
if [ "$SLURM_NODEID" != 0 ]; then exec python3 "$skep_steps/steps.py" serve; fi
printf '#!/bin/sh\\nexec python3 "%s/steps.py" run "$@"\\n' "$skep_steps" > "$skep_steps/srun"
chmod 755 "$skep_steps/srun"
export PATH="$skep_steps:$PATH"
exec 3>&1
SKEP_STEP_STDOUT=$(python3 -c 'import os; s = os.fstat(3); print("%d:%d" % (s.st_dev, s.st_ino))')
exec 3>&-
export SKEP_STEP_STDOUT
python3 "$skep_steps/steps.py" begin"""
END = 'python3 "$skep_steps/steps.py" end "$skep_code"\nexit "$skep_code"'


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
    _habit("many_programs", r"srun\b",
           "srun --multi-prog is not known: make each program a task role.", r"\s--multi-prog\b"),
    _habit("mpirun", r"(?:mpirun|mpiexec)\b",
           "mpirun reaches the other nodes by ssh: the image needs sshd. Its hosts are in "
           "$SKEP_HOSTFILE.", many=True),
    _habit("containers", r"(?:singularity|apptainer|enroot|docker|podman)\s", IN_A_CONTAINER),
    _habit("containers", r"srun\s", IN_A_CONTAINER,
           r"(?:singularity|apptainer|enroot|docker|podman)\s"),
)  # fmt: skip
OF_WHOLE_LINES = (
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
