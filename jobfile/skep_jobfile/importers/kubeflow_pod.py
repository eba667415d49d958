"""From the container of a pod template to a task role."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from skep_jobfile.importers.kubeflow_draft import ENTRYPOINT, Role
from skep_jobfile.importers.kubeflow_view import View
from skep_jobfile.importers.result import nested_script, refused
from skep_limits import is_node_variable, is_platform_variable

IMAGE = "ubuntu:24.04"
CPUS_OF_A_GPU = 4
MEMORY_OF_A_GPU_MB = 16384
GPU = "nvidia.com/gpu"
SHM = "/dev/shm"  # noqa: S108
# Every task of ours has these, or they belong to what Kubeflow starts itself.
USUAL_PORTS = ("pytorchjob-port", "tfjob-port", "mpijob-port", "sshd", "ssh")
VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
KUBEFLOW_PREFIX = "PET_"  # of variables that Kubeflow sets for torchrun
POD = {
    "nodeSelector": "name a GPU model by extras.hivedScheduler.taskRoles.<role>.skuType.",
    "affinity": "name a GPU model by skuType, or a cell by withinOneCell, under extras.",
    "tolerations": "there are no taints: the scheduler knows which GPUs are free for you.",
    "initContainers": "put their commands before those of the role.",
    "imagePullSecrets": "write username and password to `auth` of the prerequisite.",
    "priorityClassName": "set extras.hivedScheduler.jobPriorityClass: oppo, test or prod.",
    "schedulerName": "Skep's scheduler places all tasks.",
    "serviceAccountName": "a task has no account of Kubernetes.",
    "securityContext": "a task runs as its image says, without privileges.",
    "terminationGracePeriodSeconds": "set extras.skep.stopGrace.",
    "activeDeadlineSeconds": "set extras.skep.maxDuration.",
}
CONTAINER = {
    "securityContext": POD["securityContext"],
    "envFrom": "write each variable to extras.skep.environment, secret ones by <% $secrets.x %>.",
    "livenessProbe": "a task is alive until its command ends.",
    "readinessProbe": "a gang begins when all of its containers are up.",
    "startupProbe": "a gang begins when all of its containers are up.",
    "lifecycle": "put these commands into those of the role.",
    "volumeDevices": "a task has the disk of its container.",
    "imagePullPolicy": "the node looks for a newer image by itself.",
}
FROM = {
    "secretKeyRef": "write its value to `secrets`, and {name}: <% $secrets.x %> to "
    "extras.skep.environment.",
    "configMapKeyRef": "write its value to extras.skep.environment.",
    "fieldRef": "see PAI_* and SKEP_* for what a task knows of itself.",
    "resourceFieldRef": "see PAI_RESOURCE_<role>.",
}
VOLUME = "get data by the commands, or send files by extras.skep.workingFiles."
UNITS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?)(?:[eE]([0-9]{1,2})|([numkMGTPE]i?|Ki)?)")
MIB = 2**20
MAX_VALUE = 100_000  # characters of one variable, expanded
REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
SHELLS = frozenset({"sh", "bash", "ash", "dash"})


def role(pod: View, name: str, instances: int, container_name: str) -> Role:
    """`pod` is the spec of a pod; `container_name` is the one that Kubeflow itself looks for."""
    container = _main(pod, container_name)
    folders, shm_mb = _volumes(pod, container)
    made = of_container(container, name, instances)
    made.shm_mb = shm_mb
    if folders:
        made.setup.insert(0, f"mkdir -p {' '.join(folders)}")
    pod.skip("restartPolicy", "hostNetwork", "dnsPolicy", "enableServiceLinks")
    pod.rest(POD)
    return made


def of_container(container: View, name: str, instances: int) -> Role:
    """Also the `trainer` of a TrainJob has these fields."""
    environment, known = _environment(container)
    asked = "resourcesPerNode" if "resourcesPerNode" in container.data else "resources"
    cpus, memory_mb, gpus = _resources(container, asked)
    command, args = container.texts("command"), container.texts("args")
    if args and not command:
        container.note("entrypoint", "The args go to the image's entrypoint, by this word.", "args")
        script = f"{ENTRYPOINT} {arguments(args, known)}"
    else:
        script = as_script([*command, *args], known) if command else ""
    made = Role(
        name=name,
        instances=instances,
        image=container.text("image") or IMAGE,
        cpus=cpus,
        memory_mb=memory_mb,
        gpus=gpus,
        command=script,
        environment=environment,
        ports=list(_ports(container)),
    )
    if work_dir := container.text("workingDir"):
        made.setup.append(f"cd {as_script([work_dir], ())}")
    container.skip("name", "tty", "stdin", "terminationMessagePath", "terminationMessagePolicy")
    container.rest(CONTAINER)
    return made


def _main(pod: View, wanted: str) -> View:
    containers = pod.children("containers")
    if not containers:
        raise pod.wrong("containers", "the list of containers")
    named = [c for c in containers if c.data.get("name") == wanted]
    main = (named or containers)[0]
    for other in containers:
        if other is not main:
            message = "A task is one container: start this one's command in the background."
            other.note("other_container", message, "name")
    return main


def _environment(container: View) -> tuple[dict[str, str], set[str]]:
    """Return the known values, and all names that the container has."""
    found: dict[str, str] = {}
    known = set()
    for variable in container.children("env"):
        name = variable.text("name")
        known.add(name)
        if "valueFrom" in variable.data:
            _note_source(variable, name)
        elif not VARIABLE.fullmatch(name):
            variable.note("not_carried_over", f"{name[:100]}: no name for a variable.", "name")
        elif name.startswith(KUBEFLOW_PREFIX) or is_platform_variable(name):
            message = f"{name[:100]} is given by the platform and was left out."
            variable.note("not_carried_over", message, "name")
        elif is_node_variable(name):
            message = f"{name[:100]} is set by the node: export it in `commands` instead."
            variable.note("not_carried_over", message, "name")
        else:
            found[name] = expanded(variable.text("value"), found)
    return found, known & set(found)


def _note_source(variable: View, name: str) -> None:
    source = variable.child("valueFrom")
    kind = next(iter(source.data), "")
    hint = FROM.get(kind, "write its value to extras.skep.environment.")
    message = f"{name[:100]} by {kind[:100]}: {hint.format(name=name[:100])}"
    variable.note("value_from", message, "name")


def _resources(container: View, key: str) -> tuple[int, int, int]:
    """CPUs, MiB and GPUs: the limits, else what is requested."""
    asked = container.child(key)
    limits, requests = asked.child("limits"), asked.child("requests")
    gpus = whole(_quantity(limits, requests, GPU) or Decimal(0))
    cpus = _quantity(limits, requests, "cpu")
    memory = _quantity(limits, requests, "memory")
    if cpus is None or memory is None:
        chosen = f"{CPUS_OF_A_GPU} CPUs and {MEMORY_OF_A_GPU_MB} MiB"
        message = f"A task has a limit of CPUs and memory: {chosen} for each GPU, unless it says."
        container.note("resources_chosen", message, key)
    for view in {id(v.data): v for v in (requests, limits)}.values():
        view.rest({"ephemeral-storage": "the disk of a task is its container's."})
    asked.rest({})
    return (
        whole(cpus) if cpus is not None else CPUS_OF_A_GPU * max(1, gpus),
        mib(memory) if memory is not None else MEMORY_OF_A_GPU_MB * max(1, gpus),
        gpus,
    )


def _quantity(limits: View, requests: View, key: str) -> Decimal | None:
    values = [(view, view.take(key)) for view in (limits, requests)]
    for view, value in values:
        if value is not None:
            found = amount(value)
            if found is None:
                raise view.wrong(key, "a quantity such as 500m or 16Gi")
            return found
    return None


def _ports(container: View) -> Iterator[str]:
    for port in container.children("ports"):
        name, number = port.text("name"), port.take("containerPort")
        if name in USUAL_PORTS:
            continue
        label = re.sub("[^a-zA-Z0-9_]", "_", name or f"port_{number}")
        label = label if VARIABLE.fullmatch(label) and label != "master" else f"port_{label}"
        variable = f"$PAI_CONTAINER_HOST_{label}_PORT_LIST"
        port.note("port", f"Its number is chosen when the task is placed: {variable}.")
        yield label


def _volumes(pod: View, container: View) -> tuple[list[str], int]:
    """Return the folders to make instead of empty volumes, and the size of /dev/shm in MiB (0:
    default)."""
    mounts: dict[str, Any] = {}
    for mount in container.children("volumeMounts"):
        mounts[mount.text("name")] = mount.text("mountPath")
    folders, shm_mb = [], 0
    for volume in pod.children("volumes"):
        path = mounts.get(volume.text("name"), "")
        if "emptyDir" not in volume.data:
            kind = next((key for key in volume.data if key != "name"), "")
            volume.note("volume", f"{kind[:100]} at {path[:200] or 'no path'}: {VOLUME}", "name")
        elif path == SHM:
            size = amount(volume.child("emptyDir").take("sizeLimit"))
            shm_mb = mib(size) if size else 0
        elif path:
            folders.append(as_script([path], ()))
    return folders, shm_mb


def amount(value: Any) -> Decimal | None:
    """None for what is no quantity, or below zero."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    found = QUANTITY.fullmatch(str(value).strip())
    if found is None or (found[3] or "") not in UNITS:
        return None
    return Decimal(found[1]) * UNITS[found[3] or ""] * 10 ** int(found[2] or 0)


def whole(value: Decimal) -> int:
    """Rounded up: half a CPU is one."""
    return int(value.to_integral_value(ROUND_CEILING))


def mib(value: Decimal) -> int:
    return whole(value / MIB)


def as_script(words: Sequence[str], known: Collection[str]) -> str:
    """The command line as shell, where $(NAME) becomes the variable if it is one of `known`."""
    if len(words) == 3 and words[0].rpartition("/")[2] in SHELLS and words[1] in ("-c", "-ec"):
        return _shell(words[0].rpartition("/")[2], words[1], _replaced(words[2], known).strip())
    return " ".join(_word(word, known) for word in words)


def arguments(words: Sequence[str], known: Collection[str]) -> str:
    """Return the words as shell, where $(NAME) becomes the variable if it is one of `known`."""
    return " ".join(_word(word, known) for word in words)


def expanded(value: str, known: Mapping[str, str]) -> str:
    """Return the value of a variable that uses earlier ones: at most MAX_VALUE characters of what
    they expand to. Raises InvalidJobFile: variables that use each other twice grow
    exponentially."""
    left = MAX_VALUE

    def printed(found: re.Match[str]) -> str:
        nonlocal left
        text = "$" if found[2] is None else known.get(found[2], found[0])
        left -= len(text)
        if left < 0:
            raise refused("too_much_text", f"A variable has at most {MAX_VALUE} characters.")
        return text

    return REFERENCE.sub(printed, value)


def _shell(name: str, option: str, text: str) -> str:
    """Commands are run by sh anyway."""
    if name == "sh":
        return f"set -e\n{text}" if option == "-ec" else text
    return nested_script([name, option], text, "COMMAND")


def _word(word: str, known: Collection[str]) -> str:
    """Quote a word for a shell, but for the variables in it."""
    parts, place = [], 0
    for found in REFERENCE.finditer(word):
        if found[2] is not None and found[2] not in known:
            continue  # stays as it is written
        parts.append(_quoted(word[place : found.start()]))
        parts.append("'$'" if found[2] is None else f'"${{{found[2]}}}"')
        place = found.end()
    parts.append(_quoted(word[place:]))
    return "".join(parts) or "''"


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""


def _replaced(text: str, known: Collection[str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[2] is None:
            return "$"
        return f"${{{found[2]}}}" if found[2] in known else found[0]

    return REFERENCE.sub(value, text)
