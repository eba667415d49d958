"""How much text one job file may become: what is beyond it is never built."""

from __future__ import annotations

MAX_RENDERED = 1024**2  # characters of rendered text of one job
MAX_READ = 4 * MAX_RENDERED  # characters of templates that are read for it


class TooMuchText(ValueError):
    """The rendered text of a job exceeds its budget."""


class Budget:
    """Counts down while templates are rendered, and stops at the first piece that is too much."""

    def __init__(self, most: int = MAX_RENDERED, most_read: int = MAX_READ) -> None:
        self.most = most
        self._left, self._left_to_read = most, most_read

    def read(self, template: str) -> None:
        """Raises TooMuchText."""
        self._left_to_read -= len(template)
        if self._left_to_read < 0:
            raise TooMuchText

    def write(self, text: str) -> str:
        """Return the text. Raises TooMuchText."""
        self._left -= len(text)
        if self._left < 0:
            raise TooMuchText
        return text
