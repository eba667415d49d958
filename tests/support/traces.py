"""The traces and published results that stand beside the checkout; they are no part of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

REFERENCE = Path(__file__).resolve().parents[2].parent / "shared" / "reference"


def trace(name: str) -> Path:
    """A published trace. Skips where there is none, but not in CI."""
    return _existing(REFERENCE / "traces" / name)


def published(name: str) -> Any:
    """The numbers of a paper or artifact. Skips where there are none, but not in CI."""
    return json.loads(_existing(REFERENCE / "published" / name).read_text())


def _existing(path: Path) -> Path:
    if not path.exists():
        message = f"no published data at {path}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path
