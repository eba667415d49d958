"""The #SBATCH lines of a batch script, as sbatch reads them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from skep_jobfile.importers.result import Note, refused

MARK = "#SBATCH"
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
        message = "A heterogeneous job: convert each of its parts, and make them task roles."
        raise refused("several_jobs", message, number)
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
