"""Users. API tokens are django-rest-knox rows: hashed, expiring, several per user."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser


class User(AbstractUser):
    """A person or an automation. `is_superuser` is the cluster administrator; rights inside a
    virtual cluster come from `tenancy.Membership`."""

    @property
    def is_admin(self) -> bool:
        return self.is_active and self.is_superuser
