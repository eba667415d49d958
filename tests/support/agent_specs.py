"""Builders for what the control plane sends to an agent."""

from __future__ import annotations

from typing import Any

from skep_agent.protocol import AttemptSpec, Gpu, ImageSpec


def gpu(uuid: str, **fields: Any) -> Gpu:
    return Gpu(**({"uuid": uuid, "model": "A100", "memory_mb": 40960, "index": 0} | fields))


def spec(attempt_id: str = "a1", **fields: Any) -> AttemptSpec:
    """A CPU-only attempt that the mock runtime ends at once, unless said otherwise."""
    defaults: dict[str, Any] = {
        "attempt_id": attempt_id,
        "epoch": 1,
        "job_id": "j1",
        "job_name": "train",
        "task_role": "worker",
        "task_index": 0,
        "image": ImageSpec(reference="busybox"),
        "command": "mock run_for=0",
        "cpus": 1.0,
        "memory_mb": 64,
    }
    return AttemptSpec(**(defaults | fields))
