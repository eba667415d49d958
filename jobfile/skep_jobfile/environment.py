"""The environment that OpenPAI's server gives to the tasks of a job before they are placed."""

from __future__ import annotations

from skep_jobfile.models import JobFile, TaskRole

TASK_INDEX = "<from:metadata.annotations['FC_TASK_INDEX']>"
CELLS = "<from:metadata.annotations['hivedscheduler.microsoft.com/pod-leaf-cell-isolation']>"
NO_GPUS = "none"


def of_job(job: JobFile, user: str) -> dict[str, str]:
    """The same for all tasks."""
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


def of_task(name: str, gpus: int) -> dict[str, str]:
    """What tasks of this role have besides; the agent puts the index in."""
    env = {
        "PAI_CURRENT_TASK_ROLE_NAME": name,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": TASK_INDEX,
        "PAI_TASK_INDEX": TASK_INDEX,
    }
    return env if gpus else {**env, "NVIDIA_VISIBLE_DEVICES": NO_GPUS}


def of_cells(gpus: int) -> dict[str, str]:
    """What differs where HiveD hands out the GPUs."""
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
