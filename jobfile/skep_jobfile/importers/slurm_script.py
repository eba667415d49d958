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

from skep_jobfile.importers import slurm_steps
from skep_jobfile.importers.result import Note, nested_script

ROLE = "worker"
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})

# The values stand in double quotes: only the shell of a task knows them.
FROM_OURS = {
    # A number, as scripts compute with it: the last eight digits of ours.
    "SLURM_JOB_ID": '$(id=${SKEP_JOB_ID##*-}; [ ${#id} -lt 12 ] && echo "$id" || '
    "printf %d 0x${id#????})",
    "SLURM_JOBID": "$SLURM_JOB_ID",
    "SLURM_JOB_USER": "$PAI_USER_NAME",
    "SLURM_JOB_NODELIST": "",  # of the component
    "SLURM_NODELIST": "$SLURM_JOB_NODELIST",
    "SLURM_NODEID": "$PAI_TASK_INDEX",
    "SLURMD_NODENAME": "$PAI_CURRENT_CONTAINER_IP",
    "SLURM_SUBMIT_DIR": "$PWD",
}
# The options that stand alone are those of slurm_steps, which reads them over several nodes.
FUNCTIONS = f"""\
srun() {{  # starts the tasks of this node, and fails as the worst of them
    skep_tasks="$SLURM_NTASKS_PER_NODE"
    while [ $# -gt 0 ]; do
        case $1 in
            --) shift; break ;;
            --ntasks=*|--ntasks-per-node=*) skep_tasks="${{1#*=}}"; shift ;;
            --ntasks|--ntasks-per-node|-n) skep_tasks="$2"; shift 2 ;;
            -n*) skep_tasks="${{1#-n}}"; shift ;;
            --*=*|-[{"".join(sorted(slurm_steps.ALONE))}]*) shift ;;
            {"|".join(f"--{name}" for name in sorted(slurm_steps.ALONE_LONG))}|--no-*) shift ;;
            --*|-?) shift 2 ;;
            -*) shift ;;
            *) break ;;
        esac
    done
    case $skep_tasks in ''|*[!0-9]*) echo "srun: $skep_tasks tasks?" >&2; return 2 ;; esac
    skep_pids= skep_local=0 skep_worst=0
    while [ "$skep_local" -lt "$skep_tasks" ]; do
        (
            export SLURM_LOCALID="$skep_local"
            export SLURM_PROCID="$skep_local" SLURM_NTASKS="$skep_tasks" SLURM_NPROCS="$skep_tasks"
            export RANK="$skep_local" WORLD_SIZE="$skep_tasks"
            export LOCAL_RANK="$skep_local" LOCAL_WORLD_SIZE="$skep_tasks"
            if [ -n "${{SLURM_GPUS_PER_TASK:-}}" ]; then
                skep_gpu="$((skep_local * SLURM_GPUS_PER_TASK))" skep_gpus=
                while [ "$skep_gpu" -lt "$(((skep_local + 1) * SLURM_GPUS_PER_TASK))" ]; do
                    skep_gpus="$skep_gpus${{skep_gpus:+,}}$skep_gpu" skep_gpu="$((skep_gpu + 1))"
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
}}
scontrol() {{  # of it only: show hostnames
    case "${{1:-}} ${{2:-}}" in
        "show hostname"*) echo "${{3:-$SLURM_JOB_NODELIST}}" | tr ',' '\\n' ;;
        *) echo "scontrol $*: there is no Slurm here" >&2; return 1 ;;
    esac
}}
module() {{ echo "module $*: there are no modules here" >&2; }}
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


def role_name(component: int) -> str:
    """Return the task role of a component of a heterogeneous job; of any other job it is 0."""
    return f"{ROLE}{component}" if component else ROLE


def commands(
    script: str, shapes: Sequence[Shape], extra: Mapping[str, str], *, steps: bool = False
) -> list[str]:
    """Return the variables, then the script as its first line wants it run. With several shapes,
    one for each component of a heterogeneous job, this is for the first of them; `steps` means
    that `srun` is the program even on one node."""
    shape = shapes[0]
    program = _program(script)
    functions = FUNCTIONS if program[0].rpartition("/")[2] in SHELLS else ""
    text = script.partition("\n")[2] if script.startswith("#!") else script
    exports = "\n".join([*_exports(shape, extra), *_of_components(shapes)])
    if shape.nodes == 1 and len(shapes) == 1 and not steps:
        run = nested_script([*program, "-c"], functions + text.strip(), "SLURM_SCRIPT")
        return [exports, run]
    others = functions.partition("scontrol()")
    run = nested_script([*program, "-c"], "".join(others[1:]) + text.strip(), "SLURM_SCRIPT")
    write = _write_steps(shapes)
    return [exports, *write, SERVE, f"skep_code=0\n(\n{run}\n) || skep_code=$?", END]


def component_commands(
    shapes: Sequence[Shape], component: int, extra: Mapping[str, str]
) -> list[str]:
    """Return the commands of a further component of a heterogeneous job: its nodes serve the
    steps of the script, which runs in the first component."""
    offset = sum(shape.nodes for shape in shapes[:component])
    own = _exports(shapes[component], extra, role_name(component), offset)
    return ["\n".join(own), *_write_steps(shapes), SERVE]


def _of_components(shapes: Sequence[Shape]) -> Iterator[str]:
    """Return Slurm's variables about the components of a heterogeneous job."""
    if len(shapes) == 1:
        return
    yield f"export SLURM_HET_SIZE={len(shapes)}"
    for number, shape in enumerate(shapes):
        yield f'export SLURM_JOB_NODELIST_HET_GROUP_{number}="{_nodes_of(role_name(number))}"'
        yield f"export SLURM_NNODES_HET_GROUP_{number}={shape.nodes}"
        tasks = shape.nodes * shape.tasks_per_node
        yield f"export SLURM_NTASKS_HET_GROUP_{number}={tasks}"


def array_index(indices: Sequence[int]) -> list[str]:
    """Set Slurm's variables of an array, by the task's number in it."""
    if not indices:
        return []
    listed = " ".join(map(str, indices))
    return [
        f'set -- {listed}\nshift "$PAI_TASK_INDEX"\n'
        'export SLURM_ARRAY_TASK_ID="$1" SLURM_ARRAY_JOB_ID="$SKEP_JOB_ID"\n'
        f"export SLURM_ARRAY_TASK_COUNT={len(indices)} SLURM_ARRAY_TASK_MIN={min(indices)} "
        f"SLURM_ARRAY_TASK_MAX={max(indices)} PAI_TASK_INDEX=0\nset --"
    ]


def _write_steps(shapes: Sequence[Shape]) -> list[str]:
    """Write the program of the steps, with which the first node starts them and all others serve
    them."""
    listed = ",".join(f"$PAI_TASK_ROLE_{role_name(n)}_HOST_LIST" for n in range(len(shapes)))
    hosts = f'export SKEP_STEP_HOSTS="{listed}"'
    if len(shapes) > 1:
        sizes = ",".join(f"{shape.nodes}:{shape.tasks_per_node}" for shape in shapes)
        hosts += f" SKEP_STEP_GROUPS={sizes}"
    write = "cat > \"$skep_steps/steps.py\" <<'SKEP_STEPS'\n" + _steps() + "SKEP_STEPS"
    return [f"{PREPARE}\n{hosts}", write]


@cache
def _steps() -> str:
    """The program, without what only its readers here need."""
    text = files("skep_jobfile.importers").joinpath("slurm_steps.py").read_text(encoding="utf-8")
    return text.partition('"""\n\n')[2]


PREPARE = """\
command -v python3 >/dev/null || {
    echo 'skep: srun over several nodes, or with several programs, needs python3 in the image' >&2
    exit 127
}
skep_steps=$(mktemp -d)"""
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


def _nodes_of(role: str) -> str:
    return f"$(echo \"$PAI_TASK_ROLE_{role}_HOST_LIST\" | sed 's/:[0-9]*//g')"


def _exports(
    shape: Shape, extra: Mapping[str, str], role: str = ROLE, offset: int = 0
) -> Iterator[str]:
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
    own = {"SLURM_JOB_NODELIST": _nodes_of(role)}
    own |= {"SLURM_NODEID": f"$((PAI_TASK_INDEX + {offset}))"} if offset else {}
    for name, value in {**FROM_OURS, **own}.items():
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


SEVERAL_PROGRAMS = re.compile(r"srun\s.*?\s:\s")


def starts_several_programs(text: str) -> bool:
    """Return whether a line starts one step of several programs: `srun -n1 a : -n4 b`."""
    for line in text.replace("\\\n", "  ").split("\n"):
        if " : " in line and "srun" in line and not line.lstrip().startswith("#"):
            parts = (part.lstrip() for part in STARTS.split(line[:MAX_LINE]))
            if any(SEVERAL_PROGRAMS.match(part) for part in parts):
                return True
    return False


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
