"""The error of all that checks what must hold."""

from __future__ import annotations


class InvariantError(AssertionError):
    """`violations` has one sentence per violation."""

    def __init__(self, violations: list[str]) -> None:
        super().__init__("\n".join(violations))
        self.violations = violations
