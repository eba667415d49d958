"""Django's `migrate`, beside servers that go on: see `core.database.migrating`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate

from skep_platform.core.database.migrating import MigrationBlocked, PatientExecutor

# Django's command offers no other way to choose the class.
migrate.MigrationExecutor = PatientExecutor  # type: ignore[attr-defined]


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except MigrationBlocked as error:
            raise CommandError(str(error)) from error

    def migration_progress_callback(
        self, action: str, migration: Any = None, fake: bool = False
    ) -> None:
        if action != "apply_waits":
            super().migration_progress_callback(action, migration, fake)
        elif self.verbosity >= 1:
            self.stdout.write(" waits for a lock, tries again")
