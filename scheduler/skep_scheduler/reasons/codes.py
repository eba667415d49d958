"""The stable names of reasons; docs/scheduler.md lists the numbers that come with each."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """In the order of hope: where several GPU models would do, the most hopeful one speaks."""

    NO_CAPACITY = "no_capacity"
    CPU_SHORTAGE = "cpu_shortage"
    MEMORY_SHORTAGE = "memory_shortage"
    QUOTA_EXCEEDED = "quota_exceeded"
    BACKOFF = "backoff"
    NO_NODES = "no_nodes"
    NEVER_FITS_CLUSTER = "never_fits_cluster"
    NEVER_FITS_NODE = "never_fits_node"
    NEVER_FITS_QUOTA = "never_fits_quota"
    NO_GPU_MODEL = "no_gpu_model"
    UNKNOWN_VC = "unknown_vc"


HOPE = {str(code): rank for rank, code in enumerate(Code)}
