"""How many GPUs of each model the cluster holds.

The cluster app, which is above this one, says so: it sets `source` when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def _nothing() -> Mapping[str, int]:
    return {}


_source: Callable[[], Mapping[str, int]] = _nothing


def told_by(source: Callable[[], Mapping[str, int]]) -> None:
    """`source()` answers {gpu_model: GPUs that the cluster's nodes have, bad ones included}."""
    global _source
    _source = source


def gpus_by_model() -> Mapping[str, int]:
    return _source()
