"""Changing who owns which cells, and how they are laid out: checked first, then all at once."""

from __future__ import annotations

from typing import Any

from skep_platform.accounts.models import User
from skep_platform.core.errors import SkepError


def check(body: Any) -> dict[str, Any]:
    raise SkepError("Cells cannot be assigned yet; try again.", code="not_ready")


def assign(user: User, body: Any) -> dict[str, Any]:
    return check(body)


def check_layout(text: str, *, assign: bool) -> dict[str, Any]:
    return check(text)


def import_layout(user: User, text: str, *, assign: bool) -> dict[str, Any]:
    return check(text)


def export() -> str:
    return str(check(""))


def delete_layout(user: User) -> None:
    check("")
