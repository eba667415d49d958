"""The #SBATCH lines of a batch script as sbatch reads them: options, amounts, what is left out."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from skep_jobfile.importers.result import Note, refused

MARK = "#SBATCH"
NEXT_COMPONENT = "hetjob"  # what follows asks for a further component of the job
MAX_LINE, MAX_OPTIONS = 8192, 1000  # shlex reads a word in quadratic time
SHORT = {
    "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint",
    "c": "cpus-per-task", "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile",
    "G": "gpus", "H": "hold", "h": "help", "I": "immediate", "i": "input", "J": "job-name",
    "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes",
    "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos",
    "S": "core-spec", "s": "oversubscribe", "t": "time", "V": "version", "v": "verbose",
    "W": "wait", "w": "nodelist", "x": "exclude",
}  # fmt: skip
# Those that stand alone; a value may only be joined by "=".
FLAGS = frozenset({
    "contiguous", "exclusive", "get-user-env", "help", "hold", "ignore-pbs", "immediate",
    "kill-on-invalid-dep", "nice", "no-kill", "no-requeue", "overcommit", "oversubscribe",
    "parsable", "propagate", "quiet", "reboot", "requeue", "spread-job", "test-only", "usage",
    "use-min-nodes", "verbose", "version", "wait",
})  # fmt: skip
LONG = frozenset(SHORT.values()) | FLAGS | {
    "acctg-freq", "bb", "bbf", "cluster-constraint", "comment", "container", "container-id",
    "container-image", "container-mount-home", "container-mounts", "container-name",
    "container-workdir", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "deadline",
    "delay-boot", "export", "export-file", "extra", "gid", "gpu-bind", "gpu-freq", "gpus-per-node",
    "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint", "mail-type", "mail-user",
    "mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network",
    "no-container-mount-home", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node",
    "ntasks-per-socket", "open-mode", "power", "prefer", "priority", "profile", "reservation",
    "signal", "sockets-per-node", "switches", "thread-spec", "threads-per-core", "time-min",
    "tmp", "tres-bind", "tres-per-task", "uid", "wait-all-nodes", "wckey", "wrap",
}  # fmt: skip
MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024, "P": 1024**3}
MAX_DIGITS = 12
ENDLESS = frozenset({"UNLIMITED", "INFINITE", "0", "-1"})
_LOGS = "the logs are kept by the platform: `skep logs JOB`, or on the page of the job."
_PLACE = "name a model by skuType, a pinned cell, or withinOneCell under extras."
_MAIL = "no mail is sent: `skep logs -f JOB` ends with the job, and fails with it."
_MOUNTS = "get data by the commands, or send files by extras.skep.workingFiles."

UNKNOWN = "it has no counterpart here and was left out."
LEFT_OUT = {
    "output": _LOGS,
    "error": _LOGS,
    "open-mode": _LOGS,
    "input": "a task has no standard input: read the file in the script.",
    "begin": "write the moment to extras.skep.begin, with its time zone.",
    "hold": "a job is queued at once: submit it later.",
    "deadline": "write the moment to extras.skep.deadline, with its time zone.",
    "time-min": "write the usual time to extras.skep.duration: it may start early in a gap.",
    "constraint": _PLACE,
    "prefer": _PLACE,
    "nodelist": _PLACE,
    "nodefile": _PLACE,
    "exclude": "nodes that fail are avoided by themselves; an admin can cordon one.",
    "switches": "set extras.skep.withinOneCell to the type of the cell that shall hold the job.",
    "reservation": "name a pinned cell under extras.hivedScheduler.",
    "exclusive": "ask for all GPUs of a node: then no other job has its GPUs.",
    "oversubscribe": "GPUs are never shared between tasks.",
    "account": "who pays is the virtual cluster: defaults.virtualCluster.",
    "qos": "set extras.hivedScheduler.jobPriorityClass: oppo, test or prod.",
    "nice": "set extras.skep.priority, 0 to 1000.",
    "priority": "set extras.skep.priority, 0 to 1000.",
    "no-requeue": "set extras.skep.preemptible: false; after a lost node it starts again.",
    "mail-type": _MAIL,
    "mail-user": _MAIL,
    "licenses": "licenses are not counted here.",
    "container-mounts": _MOUNTS,
    "container-workdir": "name the folder in extras.skep.workDir.",
    "tmp": "ask an admin for disk space; the disk of a task is its container's.",
    "comment": "write it to `description`.",
    "wrap": "it is an option of the command line alone.",
    "ntasks-per-socket": "sockets are not distinguished.",
    "gpus-per-socket": "sockets are not distinguished: use --gpus-per-node.",
    "distribution": "the tasks of a gang are placed as close together as can be.",
}


@dataclass(frozen=True, slots=True)
class Option:
    """`value` is "" for a flag."""

    name: str
    value: str
    line: int


def split(text: str) -> tuple[list[Option], list[Note], str]:
    """The options, what is odd about them, and the script without their lines. Raises
    InvalidJobFile for a line that sbatch cannot read either."""
    options: list[Option] = []
    notes: list[Note] = []
    script: list[str] = []
    begun = False  # sbatch looks no further than to the first command
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith(MARK):
            script.append(line)
            begun = begun or bool(line.strip() and not line.lstrip().startswith("#"))
        elif begun:
            message = "sbatch ignores #SBATCH lines after the first command, and so did we."
            notes.append(Note("ignored_line", message, number))
        elif len(line) > MAX_LINE or len(options) >= MAX_OPTIONS:
            message = f"At most {MAX_OPTIONS} options, in lines of {MAX_LINE} characters."
            raise refused("spec_too_large", message, number)
        else:
            options += _options(line[len(MARK) :], number)
    return options, notes, "\n".join(script)


def _options(line: str, number: int) -> Iterator[Option]:
    if line.strip() in ("hetjob", "packjob"):
        yield Option(NEXT_COMPONENT, "", number)
        return
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise refused("syntax", f"Not an #SBATCH line: {error}.", number) from None
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            name, joined, value = word[2:].partition("=")
            name = _whole_name(name)
            takes_next = not joined and name not in FLAGS
        elif len(word) > 1 and word.startswith("-") and word[1] in SHORT:
            name, value = SHORT[word[1]], word[2:].removeprefix("=")
            takes_next = not value and name not in FLAGS
        else:
            message = f"sbatch knows no option {word[:100]}."
            raise refused("unknown_option", message, number)
        yield Option(name, next(rest, "") if takes_next else value, number)


def _whole_name(name: str) -> str:
    """sbatch takes the beginning of a name, where only one begins so."""
    found = [known for known in LONG if known.startswith(name)]
    return found[0] if name not in LONG and len(found) == 1 else name


def whole(text: str) -> int | None:
    """A number of things; None for what is none."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def nodes(text: str) -> tuple[int, int] | None:
    """Parse the least and the most nodes: `4`, `2-4`, `1k`."""
    found = re.fullmatch(r"([0-9]{1,6})([kK]?)(?:-([0-9]{1,6})([kK]?))?", text)
    if found is None:
        return None
    least = int(found[1]) * (1024 if found[2] else 1)
    most = int(found[3]) * (1024 if found[4] else 1) if found[3] else least
    return (least, most) if 1 <= least <= most else None


def memory_mb(text: str) -> int | None:
    """Parse an amount of memory into MiB, rounded up. Without a unit it is MiB."""
    found = re.fullmatch(rf"([0-9]{{1,{MAX_DIGITS}}})(?:([KMGTP])(?:i?B)?)?", text, re.IGNORECASE)
    if found is None:
        return None
    return math.ceil(int(found[1]) * MIB[(found[2] or "M").upper()])


def seconds(text: str) -> int | None:
    """Of `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`;
    0 for no limit, None for what is no time."""
    if text.upper() in ENDLESS:
        return 0
    found = re.fullmatch(
        r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?", text
    )
    if found is None:
        return None
    days, *parts = found.groups()
    first, second, third = (int(part) if part else 0 for part in parts)
    if days is not None:
        return int(days) * 86400 + first * 3600 + second * 60 + third
    if found[4] is not None:
        return first * 3600 + second * 60 + third
    return first * 60 + second


def gpus(text: str) -> tuple[str, int] | None:
    """Parse type ("" for any) and number, of `4`, `a100:4`, `a100`; several types make no sense
    here."""
    kind, joined, number = text.rpartition(":")
    if not joined and whole(text) is None:
        kind, number = text, "1"
    count = whole(number)
    good = re.fullmatch("[A-Za-z0-9_.-]*", kind)
    return None if count is None or not good else (kind, count)


def gres_gpus(text: str) -> tuple[tuple[str, int] | None, list[str]]:
    """Return the GPUs among generic resources such as `gpu:a100:4,lustre:1`, and the other ones."""
    found, others = None, []
    for part in text.split(","):
        name, _, rest = part.removeprefix("gres/").replace("=", ":").partition(":")
        amount = gpus(re.sub(r"\(S:[0-9,-]*\)$", "", rest) or "1") if name == "gpu" else None
        if amount is None or found is not None:
            others.append(part)
        else:
            found = amount
    return found, others


MAX_ARRAY = 10_000


def indices(text: str) -> list[int] | None:
    """Return the indices of an array ("0-9", "1,3,5-15:2", with or without "%4"), or None."""
    found: list[int] = []
    for part in text.partition("%")[0].split(","):
        span = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part.strip())
        if span is None:
            return None
        first, last = int(span[1]), int(span[2] or span[1])
        step = int(span[3] or 1)
        if last < first or not step or (last - first) // step >= MAX_ARRAY:
            return None
        found += range(first, last + 1, step)
        if len(found) > MAX_ARRAY:
            return None
    return found
