"""A TrainJob of Kubeflow's trainer: what it says itself, since its runtime is not at hand."""

from __future__ import annotations

import re

from skep_jobfile import torchrun
from skep_jobfile.importers import kubeflow_jobs, kubeflow_pod
from skep_jobfile.importers.kubeflow_draft import Draft
from skep_jobfile.importers.kubeflow_view import View

ROLE = "worker"
OVERRIDES = "write to the job file what they change."
SPEC = {
    "initializer": "get data and models by the commands of the role.",
    "podTemplateOverrides": OVERRIDES,
    "podSpecOverrides": OVERRIDES,
    "runtimePatches": OVERRIDES,
    "labels": "they are for Kubernetes.",
    "annotations": "they are for Kubernetes.",
    **kubeflow_jobs.RUN_POLICY,
}


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
    role.setup.insert(0, torchrun.exports(each))
    draft.roles = [role]
    if runtime:
        _note_runtime(spec, runtime, has_image="image" in trainer.data)
    spec.rest(SPEC)
    return draft


def _note_runtime(spec: View, name: str, *, has_image: bool) -> None:
    message = f"What the runtime {name[:100]} adds is not known here"
    message += "." if has_image else ": put its image under prerequisites."
    if re.search("mpi|deepspeed|mlx", name):
        message += " It starts the command by mpirun: write that to the commands."
    spec.note("runtime", message, "runtimeRef")
