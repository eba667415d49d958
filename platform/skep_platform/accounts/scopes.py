"""What a credential may do: the one check behind every route and socket.

A token has a scope. `read` lets it read what its user may read; `submit` also lets it work with
jobs and files; `admin` lets it do all that its user may. A session, which needs a password or
single sign-on, has no scope and may do everything that its user may.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from skep_platform.core.errors import Forbidden


class Scope(models.TextChoices):
    """In ascending order: each may do what those before it may."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


ORDER = [scope.value for scope in Scope]


def allows(held: str, needed: str) -> bool:
    """Whether a token with one scope may do what needs another."""
    return ORDER.index(held) >= ORDER.index(needed)


def needed_by(request: Request) -> str:
    """Reading needs `read`; writing needs the view's `token_scope`, or `admin` without one."""
    if request.method in SAFE_METHODS:
        return Scope.READ
    return str(getattr(request.parser_context.get("view"), "token_scope", Scope.ADMIN))


def check(held: str, needed: str) -> None:
    """Raises Forbidden `scope_too_small`."""
    if not allows(held, needed):
        message = f"The token has the scope {held}; this needs one of the scope {needed}."
        raise Forbidden(message, code="scope_too_small", scope=held, needed=needed)


def of(user: Any) -> str:
    """The scope of the credential by which this user was found."""
    return str(getattr(user, "token_scope", Scope.ADMIN))
