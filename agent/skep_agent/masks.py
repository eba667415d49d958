"""What no log of an attempt may show, on disk until the log is with the server.

An agent that comes back reads a container's log from its first byte, perhaps long before it hears
of the attempt again: without these files it would ship what it must cover.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from skep_agent.files import write_private


class Masks:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder

    def keep(self, attempt_id: str, secrets: list[str]) -> None:
        """To be called before the attempt can write anything, also when it has none."""
        write_private(self._folder / attempt_id, json.dumps(secrets))

    def of(self, attempt_id: str) -> list[str] | None:
        """None when nobody knows any more: the state directory was lost, or is damaged."""
        try:
            return json.loads((self._folder / attempt_id).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def forget(self, attempt_id: str) -> None:
        (self._folder / attempt_id).unlink(missing_ok=True)

    def keep_only(self, attempt_ids: Collection[str]) -> None:
        """Remove what an agent that was killed left behind."""
        for path in self._folder.iterdir():
            if path.name not in attempt_ids:
                path.unlink(missing_ok=True)
