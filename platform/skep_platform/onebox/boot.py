"""Forks the servers, then takes the first steps in the database: migrate, an administrator with
a token for this machine's owner, join tokens for local nodes. Every step looks before it acts, so
that a second start is quick.

    python -m skep_platform.onebox.boot < request.json > answers

The first line of its answers has the process ids of the servers, the second one is an `Answer`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skep_platform.core import gc_control
from skep_platform.onebox import forks
from skep_platform.onebox.home import write_private

if TYPE_CHECKING:
    from skep_platform.accounts.models import User

ADMIN = "admin"
JOIN_TTL = timedelta(minutes=10)
DATABASE_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    nodes: list[str]  # that shall run
    without_credential: list[str]  # of these, those whose state folder has never joined
    token_file: str  # API token of the administrator, for this machine's owner
    servers: list[dict[str, Any]]  # of `forks.Server`


@dataclass(frozen=True, slots=True)
class Answer:
    login: dict[str, str] | None = None  # username and password, only when made now
    join_tokens: dict[str, str] = field(default_factory=dict)


def main() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")
    request = Request(**json.load(sys.stdin))
    with gc_control.paused():
        django.setup()
        forks.load()
        pids = forks.fork([forks.Server(**server) for server in request.servers])
    print(json.dumps(pids), flush=True)
    _wait_for_database()
    json.dump(asdict(boot(request)), sys.stdout)


def boot(request: Request) -> Answer:
    from skep_platform.accounts.models import User

    _migrate()
    login = _ensure_admin()
    admin = User.objects.filter(is_superuser=True, is_active=True).earliest("date_joined")
    _ensure_operator_token(admin, Path(request.token_file))
    return Answer(login, _join_tokens(admin, request))


def _wait_for_database() -> None:
    from django.db import connection
    from django.db.utils import OperationalError

    deadline = time.monotonic() + DATABASE_WAIT_S
    while True:
        try:
            return connection.ensure_connection()
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _migrate() -> None:
    """Apply what is missing."""
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)


def _ensure_admin() -> dict[str, str] | None:
    from skep_platform.accounts import services

    password = services.ensure_admin(ADMIN)
    return {"username": ADMIN, "password": password} if password else None


def _ensure_operator_token(admin: User, path: Path) -> None:
    """A token that still works is kept: programs may hold it."""
    from django.conf import settings

    from skep_platform.accounts import queries, services

    if not (path.exists() and queries.living_token(path.read_text())):
        longest = settings.SKEP_TOKEN_MAX_DAYS * 86_400
        _, token = services.create_token(admin, "owner of this box", longest)
        write_private(path, token)


def _join_tokens(admin: User, request: Request) -> dict[str, str]:
    """For nodes that have no credential, or one that the server does not know any more."""
    from skep_platform.cluster import services
    from skep_platform.cluster.models import Node, NodeState

    known = set(
        Node.objects.filter(name__in=request.nodes)
        .exclude(state=NodeState.REMOVED)
        .values_list("name", flat=True)
    )
    missing = [n for n in request.nodes if n in request.without_credential or n not in known]
    return {name: services.create_join_token(admin, JOIN_TTL, name) for name in missing}


def read_answer(text: str) -> Answer:
    raw: dict[str, Any] = json.loads(text)
    return Answer(**raw)


if __name__ == "__main__":
    main()
