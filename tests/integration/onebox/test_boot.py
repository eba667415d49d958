"""What a box does in its database before it serves."""

from __future__ import annotations

import psycopg
import pytest
from django.db.utils import OperationalError

from skep_platform.onebox import boot


def _ended_with(error: psycopg.Error) -> OperationalError:
    """Return what Django makes of an error of PostgreSQL."""
    failed = OperationalError(str(error))
    failed.__cause__ = error
    return failed


def test_a_migration_that_a_deadlock_ended_is_applied_again(monkeypatch):
    outcomes = [_ended_with(psycopg.errors.DeadlockDetected("deadlock detected")), None]

    def apply() -> None:
        if failed := outcomes.pop(0):
            raise failed

    monkeypatch.setattr(boot, "_apply_migrations", apply)
    boot._migrate()
    assert outcomes == []


@pytest.mark.parametrize("kind", [psycopg.errors.DeadlockDetected, psycopg.errors.DiskFull])
def test_a_migration_that_cannot_be_applied_ends_the_start(monkeypatch, kind):
    attempts = []

    def apply() -> None:
        attempts.append(kind)
        raise _ended_with(kind("no"))

    monkeypatch.setattr(boot, "_apply_migrations", apply)
    with pytest.raises(OperationalError):
        boot._migrate()
    assert len(attempts) == (
        boot.MIGRATION_ATTEMPTS if kind is psycopg.errors.DeadlockDetected else 1
    )
