"""What to do instead of the options of sbatch that are not carried over."""

from __future__ import annotations

_LOGS = "the logs are kept by the platform: `skep logs JOB`, or on the page of the job."
_PLACE = "name a model by skuType, a pinned cell, or withinOneCell under extras."
_ORDER = "a job waits for no other one: submit this one when that one has ended."
_MAIL = "nobody gets mail: `skep logs -f JOB` ends with the job, and fails with it."
_MOUNTS = "get data by the commands, or send files by extras.skep.workingFiles."

UNKNOWN = "it has no counterpart here and was left out."
LEFT_OUT = {
    "output": _LOGS,
    "error": _LOGS,
    "open-mode": _LOGS,
    "input": "a task has no standard input: read the file in the script.",
    "dependency": _ORDER,
    "begin": "a job is queued at once: submit it later.",
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
    "exclusive": "ask for all GPUs of a node: nobody else then has its GPUs.",
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
    "ntasks-per-socket": "sockets are not told apart.",
    "gpus-per-socket": "sockets are not told apart: use --gpus-per-node.",
    "distribution": "the tasks of a gang are placed as close together as can be.",
}
