"""Files of the agent's own."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Atomically, durable, readable by the owner alone."""
    fresh = path.with_name(path.name + ".new")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(file)
    fresh.replace(path)
