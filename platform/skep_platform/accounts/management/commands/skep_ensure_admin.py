"""Creates the first admin. For `skep up` and the deployment's migrate step."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from skep_platform.accounts import services


class Command(BaseCommand):
    help = (
        "Creates the admin when there is no active one, and prints {username, password} as JSON. "
        "Prints nothing when there is one: the password is shown only once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--username", default="admin")

    def handle(self, *args: Any, **options: Any) -> None:
        username = options["username"]
        password = services.ensure_admin(username)
        created = {"username": username, "password": password} if password else {}
        self.stdout.write(json.dumps(created))
