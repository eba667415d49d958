"""How cell types are named: from the hardware alone, so that a name means the same for ever.

A leaf is named by its GPU model (`A100-SXM4-80GB`), a node by its GPUs and how they are joined
(`A100-SXM4-80GB-NODE8-2xSOCKET`), and everything else by the node it is a part of or made of
(`…-SOCKET`, `…-x2`, `…-RACK`, `…-FABRIC`).
"""

from __future__ import annotations

import re
from functools import lru_cache

SWITCH, NVLINK, SOCKET = "SWITCH", "NVLINK", "SOCKET"
RACK, FABRIC = "RACK", "FABRIC"


@lru_cache(maxsize=1024)
def leaf_type(model: str) -> str:
    """The model without what file formats and paths cannot have in a name."""
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", model).strip("-")
    return re.sub(r"^NVIDIA-(?=.)", "", slug) or "GPU"


def gpu_model(name: str) -> str:
    """Return the one name of a GPU model, whether NVML's ("NVIDIA A100-SXM4-80GB") or the leaf
    type's ("A100-SXM4-80GB") is given. Names that an imported file gives are left alone."""
    return leaf_type(name) if " " in name or name.startswith("NVIDIA") else name


def is_usable(name: str) -> bool:
    """Whether it can be the name of a node or a device: the last part of a cell's address."""
    return bool(name) and "/" not in name and not name.isdecimal()
