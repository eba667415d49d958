"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings

EVERYWHERE = 100  # Hypothesis's own number, of which a profile in tests/conftest.py has a part


def examples(number: int) -> int:
    """Return `number`, or the part of it that the profile has of the usual 100."""
    return max(1, number * settings.default.max_examples // EVERYWHERE)
