"""The jobs of Kubeflow's training operator: replicas become task roles."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skep_jobfile.framework import torchrun_exports
from skep_jobfile.importers import kubeflow_jobs, kubeflow_pod
from skep_jobfile.importers.kubeflow_draft import NEVER, Draft, Role
from skep_jobfile.importers.kubeflow_view import View

RETRIES = 3  # where Kubeflow restarts without end
QUEUES = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name")
RUN_POLICY = {
    "ttlSecondsAfterFinished": "jobs and logs are kept as long as the platform's policy says.",
    "suspend": "a job is queued at once: submit it when it shall run.",
    "managedBy": "Skep manages it.",
}
SPEC = {
    "successPolicy": "see taskRoles.<role>.completion for which tasks end the job.",
    "enableDynamicWorker": "a gang has a fixed size.",
    "mpiImplementation": "of MPI, OpenMPI and what reads its hostfile are prepared.",
    "runLauncherAsWorker": "make the launcher a worker with GPUs of its own.",
}
ELASTIC = {"metrics": "the size of a gang is not changed by what it uses."}
SSHD = re.compile(r"(?:^|/|\s)sshd(?:\s|$)")
ROLE = "worker"
OVERRIDES = "write to the job file what they change."
TRAIN_SPEC = {
    "initializer": "get data and models by the commands of the role.",
    "podTemplateOverrides": OVERRIDES,
    "podSpecOverrides": OVERRIDES,
    "runtimePatches": OVERRIDES,
    "labels": "they are for Kubernetes.",
    "annotations": "they are for Kubernetes.",
    **kubeflow_jobs.RUN_POLICY,
}


def pytorch(job: View) -> Draft:
    spec, draft = _begun(job)
    draft.roles = _replicas(spec, draft, "pytorchReplicaSpecs", ("Master", "Worker"), "pytorch")
    processes = _processes(spec, draft.roles)
    line = torchrun_exports(processes) + _elastic(spec, draft)
    for role in draft.roles:
        role.setup.insert(0, line)
        if role.name != draft.roles[0].name:
            role.min_succeeded = NEVER  # the master ends the job
    spec.rest(SPEC)
    return draft


def tensorflow(job: View) -> Draft:
    """Convert a TFJob. Its tasks find each other by TF_CONFIG, with the port of label `tf`."""
    spec, draft = _begun(job)
    order = ("Chief", "Master", "Worker", "PS", "Evaluator")
    draft.roles = _replicas(spec, draft, "tfReplicaSpecs", order, "tensorflow")
    ends = draft.roles[0].name
    for role in draft.roles:
        role.ports = list(dict.fromkeys(["tf", *role.ports]))
        if role.name != ends:
            role.min_succeeded = NEVER
    if ends == "worker" and spec.data.get("successPolicy") != "AllWorkers":
        message = "Kubeflow ends the job with worker 0; here all workers have to succeed."
        spec.note("success_policy", message, "tfReplicaSpecs")
    spec.skip(*(["successPolicy"] if spec.data.get("successPolicy") == "AllWorkers" else []))
    spec.rest(SPEC)
    return draft


def mpi(job: View) -> Draft:
    """The launcher finds the workers by a hostfile, and reaches them by keys of the job."""
    spec, draft = _begun(job)
    draft.roles = _replicas(spec, draft, "mpiReplicaSpecs", ("Launcher", "Worker"), "mpi")
    slots = spec.whole("slotsPerWorker") or 1
    draft.ssh = True
    for role in draft.roles:
        if role.name == "worker":
            _serve(role)
        else:
            role.setup.insert(0, _hostfile(slots))
    spec.skip("sshAuthMountPath", "launcherCreationPolicy")
    if spec.data.get("mpiImplementation", "OpenMPI") == "OpenMPI":
        spec.skip("mpiImplementation")
    spec.note("ssh", _NEEDS_SSH, "mpiReplicaSpecs")
    spec.rest(SPEC)
    return draft


_NEEDS_SSH = "The image needs ssh and sshd; keys, host names and a hostfile are there at the start."


def _serve(role: Role) -> None:
    """Replace the command of a worker that ran sshd: ours runs already."""
    role.min_succeeded = NEVER
    if not role.command or SSHD.search(role.command):
        role.command = "exec sleep 2147483647  # until the launcher has ended the job"


def _hostfile(slots: int) -> str:
    """Of the workers alone, by the names that ssh knows."""
    return (
        f"sed -n 's/^\\(worker-[0-9]*\\) .*/\\1 slots={slots}/p'"
        ' "$SKEP_HOSTFILE" > /tmp/hostfile\n'
        "export OMPI_MCA_orte_default_hostfile=/tmp/hostfile"
        " PRTE_MCA_prte_default_hostfile=/tmp/hostfile"
    )


def _begun(job: View) -> tuple[View, Draft]:
    spec = job.child("spec")
    draft = Draft(name="job")
    metadata(job, draft)
    policy = spec.child("runPolicy")
    for view in (policy, spec):  # older versions have these in the spec itself
        _run_policy(view, draft)
    policy.rest(RUN_POLICY)
    return spec, draft


def metadata(job: View, draft: Draft) -> None:
    found = job.child("metadata")
    draft.name = found.text("name") or found.text("generateName") or draft.name
    if found.text("namespace"):
        message = "A namespace is none of ours: name a virtual cluster of `skep vcs` in defaults."
        found.note("virtual_cluster", message, "namespace")
    labels = found.child("labels")
    for key in QUEUES:
        if queue := labels.text(key):
            draft.virtual_cluster = queue
            message = f"The queue became the virtual cluster {queue[:100]}: `skep vcs` lists yours."
            labels.note("virtual_cluster", message, key)
    found.skip("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
    found.rest({"annotations": "they are for Kubernetes."})
    labels.rest({})
    job.skip("apiVersion", "kind", "status")
    job.rest({})


def _run_policy(view: View, draft: Draft) -> None:
    draft.max_duration_s = view.whole("activeDeadlineSeconds") or draft.max_duration_s
    limit = view.whole("backoffLimit")
    draft.retries = draft.retries if limit is None else limit
    if clean := view.text("cleanPodPolicy"):
        message = f"cleanPodPolicy {clean[:20]}: when a job ends, all of its tasks are stopped."
        view.note("not_carried_over", message, "cleanPodPolicy")
    policy = view.child("schedulingPolicy")
    if queue := policy.text("queue"):
        draft.virtual_cluster = queue
        message = f"The queue became the virtual cluster {queue[:100]}: `skep vcs` lists yours."
        policy.note("virtual_cluster", message, "queue")
    policy.skip("minAvailable", "minResources")  # all tasks start together, or none
    policy.rest({"priorityClass": kubeflow_pod.POD["priorityClassName"]})


def _replicas(
    spec: View, draft: Draft, key: str, order: Sequence[str], container: str
) -> list[Role]:
    """Return the roles in the order of their ranks."""
    replicas = spec.child(key)
    roles = []
    for kind in order:
        replica = replicas.child(kind)
        if replica.data and replica.data.get("replicas") != 0:
            roles.append(_role(replica, draft, kind.lower(), container))
    replicas.rest(dict.fromkeys(replicas.data, f"of replicas, {', '.join(order)} are known."))
    if not roles:
        raise spec.wrong(key, f"replicas: {', '.join(order)}")
    return roles


def _role(replica: View, draft: Draft, name: str, container: str) -> Role:
    count = replica.whole("replicas") or 1
    template = replica.child("template")
    pod = template.child("spec")
    role = kubeflow_pod.role(pod, name, count, container)
    draft.host_network = draft.host_network or pod.data.get("hostNetwork") is True
    if not role.command and container != "mpi":  # there it is sshd
        note_no_command(pod, "containers")
    _restart_policy(replica, pod, draft)
    template.rest({"metadata": "labels and annotations of pods are for Kubernetes."})
    replica.rest({})
    return role


def note_no_command(view: View, *below: str) -> None:
    message = "There is no command: the image's entrypoint runs as the image says."
    view.note("no_command", message, *below)


def _restart_policy(replica: View, pod: View, draft: Draft) -> None:
    policy = replica.text("restartPolicy") or pod.text("restartPolicy")
    if policy in ("OnFailure", "Always", "ExitCode") and not draft.retries:
        draft.retries = RETRIES
        message = f"{policy}: a failed task makes the whole gang start again, {RETRIES} times."
        replica.note("retries", message, "restartPolicy")


def _processes(spec: View, roles: Sequence[Role]) -> int:
    """Return the number of processes that torchrun starts in each task."""
    elastic = spec.data.get("elasticPolicy")
    values = [spec.take("nprocPerNode")]
    values += [elastic.get("nProcPerNode")] if isinstance(elastic, dict) else []
    for value in values:
        if value is not None and re.fullmatch("[0-9]{1,4}", str(value)):
            return int(value)
    return max(1, max(role.gpus for role in roles))


def _elastic(spec: View, draft: Draft) -> str:
    """The options of torchrun that Kubeflow gives by its elastic policy, for the same line."""
    policy = spec.child("elasticPolicy")
    if not policy.data:
        return ""
    least, most = policy.whole("minReplicas"), policy.whole("maxReplicas")
    workers = next((role.instances for role in draft.roles if role.name == "worker"), 1)
    draft.elastic = (min(least or 1, workers), max(least or 1, most or workers, workers))
    restarts = policy.whole("maxRestarts")
    policy.skip("nProcPerNode", "rdzvBackend", "rdzvHost", "rdzvPort", "rdzvId", "standalone")
    message = (
        f"It begins with all {workers} workers, and waits for them; only where the policy of the "
        "virtual cluster chooses sizes it begins with others, and starts again to change them."
    )
    policy.note("elastic", message, "minReplicas")
    policy.rest(ELASTIC)
    return "" if restarts is None else f" PET_MAX_RESTARTS={restarts}"


def train(job: View) -> Draft:
    spec, draft = job.child("spec"), Draft(name="job")
    kubeflow_jobs.metadata(job, draft)
    runtime = spec.child("runtimeRef").text("name")
    trainer = spec.child("trainer")
    nodes, processes = trainer.whole("numNodes") or 1, trainer.take("numProcPerNode")
    draft.max_duration_s = spec.whole("activeDeadlineSeconds") or 0
    role = kubeflow_pod.of_container(trainer, ROLE, nodes)
    if not role.command:
        kubeflow_jobs.note_no_command(spec, "trainer")
    each = int(processes) if re.fullmatch("[0-9]{1,4}", str(processes)) else max(1, role.gpus)
    role.setup.insert(0, torchrun_exports(each))
    draft.roles = [role]
    if runtime:
        _note_runtime(spec, runtime, has_image="image" in trainer.data)
    spec.rest(TRAIN_SPEC)
    return draft


def _note_runtime(spec: View, name: str, *, has_image: bool) -> None:
    message = f"What the runtime {name[:100]} adds is not known here"
    message += "." if has_image else ": put its image under prerequisites."
    if re.search("mpi|deepspeed|mlx", name):
        message += " It starts the command by mpirun: write that to the commands."
    spec.note("runtime", message, "runtimeRef")
