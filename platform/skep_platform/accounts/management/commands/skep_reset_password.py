"""Lets a user in again from the server's own machine, where no page helps: break glass."""

from __future__ import annotations

import getpass
import json
import socket
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from skep_platform.accounts import break_glass
from skep_platform.core.errors import SkepError


class ResetPassword(BaseCommand):
    help = (
        "Sets a random password for a user and prints {username, password} as JSON: it is shown "
        "only once. All sessions and API tokens of the user end. For emergencies, such as a lost "
        "last admin; the audit log records it with the reason."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--reason", required=True, help="For the audit log.")
        parser.add_argument(
            "--reset-mfa", action="store_true", help="Also switch the second factor off."
        )
        parser.add_argument(
            "--activate", action="store_true", help="Also activate a deactivated account."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            password = break_glass.reset_password(
                options["username"],
                reason=options["reason"],
                by=f"{_user()}@{socket.gethostname()}",
                mfa_too=options["reset_mfa"],
                activate=options["activate"],
            )
        except SkepError as error:
            raise CommandError(f"{error.message} ({error.code})") from None
        self.stdout.write(json.dumps({"username": options["username"], "password": password}))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "unknown"


Command = ResetPassword  # by which Django finds it
