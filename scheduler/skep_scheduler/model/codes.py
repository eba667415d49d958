"""The stable names of reasons; docs/scheduler.md lists the numbers that come with each."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Why a gang waits, in the order of hope."""

    PREEMPTING = "preempting"  # its cells are reserved, the victims are leaving
    VICTIMS_TOO_YOUNG = "victims_too_young"  # `at` says when they may be preempted
    COOLING_DOWN = "cooling_down"  # a preemption was cancelled: the next one not before `until`
    BACKOFF = "backoff"
    NODE_EXCLUDED = "avoiding"  # it would fit, but on a node that it avoids `until`
    MAINTENANCE = "maintenance"  # it would fit, but not end before a node's maintenance `at`
    HELD_BACK = "held_back"  # it could start, but would delay a gang before it
    USER_GPU_LIMIT = "user_gpu_limit"  # its owner holds the GPUs that one user may have in the VC
    USER_JOB_LIMIT = "user_job_limit"  # the same of gangs
    NO_SIZE = "no_size"  # its policy gives it no GPUs now
    NOT_ADMITTED = "not_admitted"  # its deadline cannot be met, or only if others are missed
    VC_BUSY = "vc_busy"
    CLUSTER_BUSY = "cluster_busy"
    CPU_BUSY = "cpu_busy"
    MEMORY_BUSY = "memory_busy"
    BAD_HARDWARE = "bad_hardware"
    NEVER_FITS_VC = "never_fits_vc"
    NEVER_FITS_CLUSTER = "never_fits_cluster"  # no node or VC has so many
    NEVER_FITS_NODE = "never_fits_node"
    LEAF_TYPE_NOT_OWNED = "leaf_type_not_owned"
    VC_OWNS_NOTHING = "vc_owns_nothing"
    UNKNOWN_CELL_TYPE = "unknown_cell_type"
    UNKNOWN_LEAF_TYPE = "unknown_leaf_type"
    UNKNOWN_PINNED_CELL = "unknown_pinned_cell"
    PINNED_CELL_OPPORTUNISTIC = "pinned_cell_opportunistic"
    BAD_SIZE = "bad_size"
    BAD_PRIORITY = "bad_priority"
    EMPTY_GANG = "empty_gang"
    UNKNOWN_VC = "unknown_vc"


class Cancel(StrEnum):
    """Why a gang loses its reservation."""

    OUTRANKED = "outranked"  # what it had reserved goes to `by`, of a higher priority
    RESERVATION_BROKEN = "reservation_broken"  # a node or GPU is gone, or used otherwise


class Downgrade(StrEnum):
    """Why a guaranteed gang runs opportunistically now."""

    PREEMPTED_LAZILY = "preempted_lazily"  # `by` took its cells, and it allows that
    CELLS_CHANGED = "cells_changed"  # its VC does not own the cells (any more) that it runs on
