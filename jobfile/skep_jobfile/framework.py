"""What OpenPAI's server makes of a job file: policies, limits, ports and names of its framework."""

from __future__ import annotations

import hashlib
from typing import Any

from skep_jobfile import environment
from skep_jobfile.models import JobFile, TaskRole
from skep_jobfile.raw import role_key

FUSE = {"github.com/fuse": 1}
HIVED_LIMIT = {"hivedscheduler.microsoft.com/pod-scheduling-enable": 1}
SECRETS_PATH = "/usr/local/pai/secrets"


def describe(job: JobFile, user: str) -> dict[str, Any]:
    """The framework as it is without HiveD."""
    name = hashlib.md5(f"{user}~{job.name}".encode(), usedforsecurity=False).hexdigest()
    shared = environment.of_job(job, user)
    roles = job.task_roles.items()
    gpus = sum(role.instances * role.resource_per_instance.gpu for _, role in roles)
    return {
        "framework_name": name,
        "totalGpuNumber": str(gpus),
        "framework_retryPolicy": _retries(True, job.job_retry_count),
        "taskRoles": [_role(job, name, key, role, shared) for key, role in roles],
    }


def differences(job: JobFile, specs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What HiveD changes in it."""
    roles = {role_key(name): role for name, role in job.task_roles.items()}
    return {
        "podSpecs": specs,
        "limits_by_role": {key: {**_limits(role), **HIVED_LIMIT} for key, role in roles.items()},
        "env_difference_by_role": {
            key: environment.of_cells(role.resource_per_instance.gpu) for key, role in roles.items()
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
        "app_env": {**shared, **environment.of_task(name, gpus)},
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
