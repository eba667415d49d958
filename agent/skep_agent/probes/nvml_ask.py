"""NVML's questions where any of them may have no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml as nvml  # type: ignore[import-untyped]

T = TypeVar("T")


def ask(call: Callable[..., T], *arguments: Any) -> T | None:
    """None when NVML does not tell, for whatever reason."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None
