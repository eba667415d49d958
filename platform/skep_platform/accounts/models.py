"""Users and their API tokens."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.crypto import salted_hmac
from knox.models import AbstractAuthToken

from skep_platform.accounts.scopes import Scope
from skep_platform.core.ids import uuid7


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox has no types
    """A person or an automation. `is_superuser` is the cluster administrator; rights inside a
    virtual cluster come from `tenancy.Membership`."""

    # Counted up to end every session of the user at once: it is part of what a session is signed
    # with, as the password is.
    sign_outs = models.PositiveIntegerField(default=0)
    # Set when the user was deleted but rows still refer to it (its jobs, for example).
    deleted_at = models.DateTimeField(null=True)

    # Of the token by which this instance was found; a session may do all that its user may.
    token_scope = Scope.ADMIN.value

    @property
    def is_admin(self) -> bool:
        return self.is_active and self.is_superuser

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        key_salt = "skep_platform.accounts.User.session"
        signed = f"{self.password}{self.sign_outs}"
        return salted_hmac(key_salt, signed, secret=secret, algorithm="sha256").hexdigest()


class ApiToken(AbstractAuthToken):
    """A knox token (only its SHA-512 is kept) with what its owner tells it apart by."""

    public_id = models.UUIDField(default=uuid7, unique=True, editable=False)
    name = models.CharField(max_length=100)
    last4 = models.CharField(max_length=4)  # end of the token itself: 16 of its 256 bits
    scope = models.CharField(max_length=8, choices=Scope.choices, default=Scope.ADMIN)
    last_used_at = models.DateTimeField(null=True)  # to the hour

    def __str__(self) -> str:
        return self.name
