"""Django's `migrate`, beside servers that go on, and soon done with an empty database: see
`core.database.migrating`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import connections

from skep_platform.core.database.migrating import (
    MigrationBlocked,
    PatientExecutor,
    load_schema,
)

# Django's command offers no other way to choose the class.
migrate.MigrationExecutor = PatientExecutor  # type: ignore[attr-defined]
NOT_FOR_ALL = ("app_label", "plan", "check_unapplied", "fake", "fake_initial", "prune")


class Command(migrate.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--step-by-step",
            action="store_true",
            help="Apply every migration to an empty database, too, instead of the schema that "
            "they make together.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["step_by_step"] and not any(options.get(name) for name in NOT_FOR_ALL):
            loaded = load_schema(connections[options["database"]])
            if loaded and options["verbosity"] >= 1:
                self.stdout.write("The database was empty and has the whole schema now.")
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
