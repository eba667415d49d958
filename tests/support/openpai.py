"""What OpenPAI's own server answered, recorded, and small job files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT.parent / "shared" / "reference" / "openpai"
COMPILED = "job_compile_cases.json"
PROBES = "protocol_cases.json"
RUNTIME = "runtime_cases.json"


def reference(name: str) -> Path:
    """A recorded file. Skips where there is none, but not in CI."""
    path = REFERENCE / name
    if not path.exists():
        message = f"no recorded OpenPAI data at {path}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path


def recorded(name: str) -> Any:
    return json.loads(reference(name).read_text())


def job(**changes: Any) -> dict[str, Any]:
    """A good job file with one role, `worker`; `role` changes that role, `asks` its resources."""
    role, asks = changes.pop("role", {}), changes.pop("asks", {})
    worker = {
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 4, "memoryMB": 8192, "gpu": 1, **asks},
        "commands": ["train"],
        **role,
    }
    return {
        "protocolVersion": 2,
        "name": "job",
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "a/b:1"}],
        "taskRoles": {"worker": worker},
        **changes,
    }
