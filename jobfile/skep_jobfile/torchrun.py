"""What makes a plain `torchrun train.py` find the other tasks of its job."""

from __future__ import annotations


def exports(processes: int, nodes: str = "$WORLD_SIZE") -> str:
    """One line of shell. torchrun takes the default of its option --x-y from PET_X_Y: each task is
    one of its nodes, and starts so many processes."""
    return (
        f'export PET_NNODES="{nodes}" PET_NODE_RANK="$RANK" PET_NPROC_PER_NODE={processes}'
        ' PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"'
    )
