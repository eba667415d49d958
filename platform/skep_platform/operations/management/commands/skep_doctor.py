"""The doctor without a web server: in a container of the platform, or `skep manage skep_doctor`.

Says what is wrong also where PostgreSQL or Redis is away."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from skep_platform.core.errors import SkepError
from skep_platform.operations import doctor


class Command(BaseCommand):
    help = "Looks at everything that Skep stands on, and says what to do. Ends with 1 on an error."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("checks", nargs="*", metavar="CHECK", default=[])
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--strict", action="store_true", help="Warnings count as errors.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = doctor.run(frozenset(options["checks"]))
        except SkepError as error:
            raise CommandError(str(error)) from None
        healthy = doctor.healthy(found, strict=options["strict"])
        if options["json"]:
            body = {"healthy": healthy, "checks": [asdict(one) for one in found]}
            self.stdout.write(json.dumps(body))
        for one in [] if options["json"] else found:
            for finding in one.findings:
                self.stdout.write(f"{finding.severity:<8}{one.check:<14}{finding.message}")
                if finding.action:
                    self.stdout.write(f"{'':22}-> {finding.action}")
        if not healthy:
            sys.exit(1)
