"""OpenPAI's own way to classify an exit: the first entry of a given table with a pattern whose
parts all hold (openpai-runtime, `go/pkg/aggregator`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from skep_diagnosis.table import NO_SIGNATURE


def classify(
    patterns: Sequence[Mapping[str, Any]],
    exit_code: int,
    user_log: str = "",
    platform_log: str = "",
    gpu: Mapping[str, Any] | None = None,
) -> int | None:
    """Return the container's exit code, None for a success. `patterns` is a trusted table, in
    order."""
    if exit_code == 0:
        return None
    for entry in patterns:
        for pattern in entry["patterns"]:
            if _matches(pattern, exit_code, user_log, platform_log, gpu or {}):
                return int(entry["containerExitCode"])
    return NO_SIGNATURE


def _matches(
    pattern: Mapping[str, Any],
    exit_code: int,
    user_log: str,
    platform_log: str,
    gpu: Mapping[str, Any],
) -> bool:
    texts = {"userLogRegex": user_log, "platformLogRegex": platform_log}
    return (
        pattern.get("exitCode", exit_code) == exit_code
        and all(re.search(pattern[k], text) for k, text in texts.items() if pattern.get(k))
        and all(gpu.get(k) == v for k, v in pattern.get("gpuInfo", {}).items())
    )
