"""Names of our bridges and devices: pure.

A name says whose it is, so that rules match all bridges of a cluster by a prefix, also those that
are made later. The kernel allows 15 characters: "sk", six digits of the cluster, one letter for the
kind, six digits of what it is for.
"""

from __future__ import annotations

import hashlib
from typing import Literal

# i: bridge of lonely tasks, j: bridge of a job, g: bridge of a gang, v: VXLAN device of a gang.
Kind = Literal["i", "j", "g", "v"]


def prefix(cluster: str) -> str:
    """Begins every interface of the cluster on a machine, and nothing else there."""
    return f"sk{_digits(cluster)}"


def interface(cluster: str, kind: Kind, key: str) -> str:
    return f"{prefix(cluster)}{kind}{_digits(key)}"


def table(cluster: str) -> str:
    """Return the name of the nftables table of the cluster on a machine."""
    return f"skep_{_digits(cluster)}"


def prefix_of_table(table: str) -> str:
    """Return `prefix` for the cluster that has this table."""
    return f"sk{table.removeprefix('skep_')}"


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]
