"""Which names users may have."""

from __future__ import annotations

import re

from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError

SERVICE_PREFIX = "svc."  # of the names of service accounts
DELETED = re.compile(r"deleted-[0-9]+")  # a deleted user whose row stays, by the id of the row


def check(username: str) -> None:
    """Raises ValidationError for what is no name of a user, and for the name that a service account
    or a deleted user has."""
    UnicodeUsernameValidator()(username)
    if not 0 < len(username) <= 150:
        raise ValidationError("A user name has 1 to 150 characters.")
    if DELETED.fullmatch(username):
        raise ValidationError("Only deleted users have names of this form.")
    if username.lower().startswith(SERVICE_PREFIX):
        raise ValidationError(f"Only service accounts have names that begin with {SERVICE_PREFIX}")
