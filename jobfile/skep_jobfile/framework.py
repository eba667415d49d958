"""What OpenPAI's server makes of a job file: policies, limits, ports and names of its framework."""

from __future__ import annotations

import hashlib
from typing import Any

from skep_jobfile.models import JobFile, TaskRole
from skep_jobfile.raw import role_key

FUSE = {"github.com/fuse": 1}
HIVED_LIMIT = {"hivedscheduler.microsoft.com/pod-scheduling-enable": 1}
SECRETS_PATH = "/usr/local/pai/secrets"
TASK_INDEX = "<from:metadata.annotations['FC_TASK_INDEX']>"
CELLS = "<from:metadata.annotations['hivedscheduler.microsoft.com/pod-leaf-cell-isolation']>"
NO_GPUS = "none"


def describe(job: JobFile, user: str) -> dict[str, Any]:
    """The framework as it is without HiveD."""
    name = hashlib.md5(f"{user}~{job.name}".encode(), usedforsecurity=False).hexdigest()
    shared = job_variables(job, user)
    roles = job.task_roles.items()
    gpus = sum(role.instances * role.resource_per_instance.gpu for _, role in roles)
    return {
        "framework_name": name,
        "totalGpuNumber": str(gpus),
        "framework_retryPolicy": _retries(True, job.job_retry_count),
        "taskRoles": [_role(job, name, key, role, shared) for key, role in roles],
    }


def differences(job: JobFile, specs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what HiveD changes in the framework."""
    roles = {role_key(name): role for name, role in job.task_roles.items()}
    return {
        "podSpecs": specs,
        "limits_by_role": {key: {**_limits(role), **HIVED_LIMIT} for key, role in roles.items()},
        "env_difference_by_role": {
            key: cell_variables(role.resource_per_instance.gpu) for key, role in roles.items()
        },
    }


def _role(
    job: JobFile, framework: str, name: str, role: TaskRole, shared: dict[str, str]
) -> dict[str, Any]:
    gang, gpus = job.extras.gang_allocation, role.resource_per_instance.gpu
    image = job.image_of(role)
    pull = [f"{framework}-regcred"] if image.auth is not None else []
    return {
        "name": role_key(name),
        "taskNumber": role.instances,
        "taskRetryPolicy": _retries(not gang, 0 if gang else role.task_retry_count),
        "completionPolicy": {
            "minFailedTaskCount": role.min_failed,
            "minSucceededTaskCount": role.min_succeeded,
        },
        "image": image.uri,
        "limits": {**_limits(role), "nvidia.com/gpu": gpus},
        "app_env": {**shared, **task_variables(name, gpus)},
        "gang_allocation": "true" if gang else "false",
        "ports": {label: {"count": count} for label, count in role.ports.items()},
        "shm": f"{role.shm_mb}Mi",
        **_secret_files(job, framework),
        "imagePullSecrets": ["RUNTIME_PULL_SECRET", *pull],
        "schedulerName": None,
    }


def _limits(role: TaskRole) -> dict[str, Any]:
    asked, options = role.resource_per_instance, role.extra_container_options
    rdma = {"rdma/hca": 1} if options and options.infiniband else {}
    return {"cpu": asked.cpu, "memory": f"{asked.memory_mb}Mi", **FUSE, **rdma}


def _secret_files(job: JobFile, framework: str) -> dict[str, Any]:
    if not job.secrets:
        return {"extra_volumes": [], "extra_mounts": []}
    secret = {"secretName": f"{framework}-configcred"}
    return {
        "extra_volumes": [{"name": "job-secrets", "secret": secret}],
        "extra_mounts": [{"name": "job-secrets", "mountPath": SECRETS_PATH}],
    }


def _retries(fancy: bool, most: int) -> dict[str, Any]:
    return {"fancyRetryPolicy": fancy, "maxRetryCount": most}


def torchrun_exports(processes: int, nodes: str = "$WORLD_SIZE") -> str:
    """Return a line of shell with which a plain `torchrun train.py` finds the job's other tasks.

    torchrun takes the default of its option --x-y from PET_X_Y: each task is one of its nodes,
    and starts this number of processes."""
    return (
        f'export PET_NNODES="{nodes}" PET_NODE_RANK="$RANK" PET_NPROC_PER_NODE={processes}'
        ' PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"'
    )


def job_variables(job: JobFile, user: str) -> dict[str, str]:
    """Return the variables that are the same for all tasks."""
    full_name, names = f"{user}~{job.name}", ",".join(job.task_roles)
    roles = str(len(job.task_roles))
    tasks = str(sum(role.instances for role in job.task_roles.values()))
    env = {
        "PAI_FRAMEWORK_NAME": full_name,
        "PAI_JOB_NAME": full_name,
        "PAI_USER_NAME": user,
        "PAI_DEFAULT_FS_URI": "",
        "PAI_TASK_ROLE_COUNT": roles,
        "PAI_TASK_ROLE_LIST": names,
        "PAI_VIRTUAL_CLUSTER": job.defaults.virtual_cluster,
    }
    for name, role in job.task_roles.items():
        env |= _of_role(name, role)
    return env | {
        "PAI_USERNAME": user,
        "PAI_TASKS_NUM": tasks,
        "PAI_JOB_TASK_COUNT": tasks,
        "PAI_TASK_ROLES_NUM": roles,
        "PAI_JOB_TASK_ROLE_COUNT": roles,
        "PAI_JOB_TASK_ROLE_LIST": names,
    }


def task_variables(name: str, gpus: int) -> dict[str, str]:
    """What tasks of this role have besides; the agent puts the index in."""
    env = {
        "PAI_CURRENT_TASK_ROLE_NAME": name,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": TASK_INDEX,
        "PAI_TASK_INDEX": TASK_INDEX,
    }
    return env if gpus else {**env, "NVIDIA_VISIBLE_DEVICES": NO_GPUS}


def cell_variables(gpus: int) -> dict[str, str]:
    """Return the variables that differ where HiveD hands out the GPUs."""
    if not gpus:
        return {"HIVED_VISIBLE_DEVICES": NO_GPUS}
    return {"NVIDIA_VISIBLE_DEVICES": CELLS, "HIVED_VISIBLE_DEVICES": CELLS}


def _of_role(name: str, role: TaskRole) -> dict[str, str]:
    asked, options = role.resource_per_instance, role.extra_container_options
    shm_mb = options.shm_mb if options and "shm_mb" in options.model_fields_set else 0
    return {
        f"PAI_TASK_ROLE_TASK_COUNT_{name}": str(role.instances),
        f"PAI_RESOURCE_{name}": f"{asked.gpu},{asked.cpu},{asked.memory_mb},{shm_mb}",
        f"PAI_MIN_FAILED_TASK_COUNT_{name}": str(role.min_failed),
        f"PAI_MIN_SUCCEEDED_TASK_COUNT_{name}": str(role.min_succeeded),
    }
