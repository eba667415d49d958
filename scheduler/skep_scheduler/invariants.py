"""The error of all that checks what must hold."""

from __future__ import annotations


class InvariantError(AssertionError):
    """`stories` has one sentence per violation."""

    def __init__(self, stories: list[str]) -> None:
        super().__init__("\n".join(stories))
        self.stories = stories
