"""What `scripts/record-release` recorded of the releases before this one."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data/releases"


@dataclass(frozen=True)
class Release:
    folder: Path

    def agent_messages(self) -> list[str | bytes]:
        """Return what its agents say, as it goes over the wire."""
        return [_wire(line) for line in (self.folder / "agent.jsonl").read_text().splitlines()]

    def server_messages(self) -> dict[str, dict[str, Any]]:
        """Return what its servers say, by type."""
        lines = (self.folder / "server.jsonl").read_text().splitlines()
        return {message["type"]: message for message in map(json.loads, lines)}


def _wire(line: str) -> str | bytes:
    message = json.loads(line)
    return base64.b64decode(message["binary"]) if "binary" in message else line


RELEASES = [Release(folder) for folder in sorted(FOLDER.iterdir())]
NAMES = [release.folder.name for release in RELEASES]
