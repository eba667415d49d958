"""Making a node empty: nothing new comes, and what is there is asked to go."""

from __future__ import annotations

from skep_platform.accounts.models import User
from skep_platform.cluster import services as cluster


def drain(user: User | None, name: str) -> None:
    cluster.mark_draining(user, name)
