"""From the container of a pod template to a task role."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from skep_jobfile.importers import kubeflow_values
from skep_jobfile.importers.kubeflow_draft import ENTRYPOINT, Role
from skep_jobfile.importers.kubeflow_view import View

IMAGE = "ubuntu:24.04"
CPUS_OF_A_GPU = 4
MEMORY_OF_A_GPU_MB = 16384
GPU = "nvidia.com/gpu"
SHM = "/dev/shm"  # noqa: S108
# Every task of ours has these, or they belong to what Kubeflow starts itself.
USUAL_PORTS = ("pytorchjob-port", "tfjob-port", "mpijob-port", "sshd", "ssh")
VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
OURS = re.compile("(PAI_|SKEP_|MASTER_|PET_).*|(LOCAL_|NODE_)?RANK|(LOCAL_)?WORLD_SIZE|TF_CONFIG")
CLOSED = re.compile("(NVIDIA_|LD_PRELOAD|DOCKER_RESOURCE_).*")
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
        script = f"{ENTRYPOINT} {kubeflow_values.arguments(args, known)}"
    else:
        script = kubeflow_values.script([*command, *args], known) if command else ""
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
        made.setup.append(f"cd {kubeflow_values.script([work_dir], ())}")
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
    """What can be told, and all names that the container knew."""
    found: dict[str, str] = {}
    known = set()
    for variable in container.children("env"):
        name = variable.text("name")
        known.add(name)
        if "valueFrom" in variable.data:
            _note_source(variable, name)
        elif not VARIABLE.fullmatch(name):
            variable.note("not_carried_over", f"{name[:100]}: no name for a variable.", "name")
        elif OURS.fullmatch(name) or CLOSED.fullmatch(name):
            message = f"{name[:100]} is given by the platform and was left out."
            variable.note("not_carried_over", message, "name")
        else:
            found[name] = kubeflow_values.expanded(variable.text("value"), found)
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
    gpus = kubeflow_values.whole(_quantity(limits, requests, GPU) or Decimal(0))
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
        kubeflow_values.whole(cpus) if cpus is not None else CPUS_OF_A_GPU * max(1, gpus),
        kubeflow_values.mib(memory) if memory is not None else MEMORY_OF_A_GPU_MB * max(1, gpus),
        gpus,
    )


def _quantity(limits: View, requests: View, key: str) -> Decimal | None:
    values = [(view, view.take(key)) for view in (limits, requests)]
    for view, value in values:
        if value is not None:
            found = kubeflow_values.amount(value)
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
    """Folders to make instead of empty volumes, and the size of /dev/shm in MiB (0: default)."""
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
            size = kubeflow_values.amount(volume.child("emptyDir").take("sizeLimit"))
            shm_mb = kubeflow_values.mib(size) if size else 0
        elif path:
            folders.append(kubeflow_values.script([path], ()))
    return folders, shm_mb
