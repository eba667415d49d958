"""`skep admin doctor`: looks at everything that Skep stands on, and says what to do.

Each check is a function that yields findings. They run one after the other, as they read the
database; those that ask other machines ask all of them at once, for `network.PATIENCE_S`.
"""

from __future__ import annotations

from dataclasses import dataclass

from skep_platform.core.errors import SkepError
from skep_platform.operations.doctor import network, nodes, server, stores
from skep_platform.operations.doctor.findings import ERROR, WARNING, Check, Finding, examine

CHECKS: dict[str, Check] = {
    "settings": server.check_settings,
    "processes": server.check_processes,
    "clocks": server.check_clocks,
    "database": stores.check_database,
    "migrations": stores.check_migrations,
    "tables": stores.check_tables,
    "redis": stores.check_redis,
    "queues": stores.check_queues,
    "stores": stores.check_stores,
    "backup": stores.check_backup,
    "agents": nodes.check_agents,
    "drivers": nodes.check_drivers,
    "gpus": nodes.check_gpus,
    "disks": nodes.check_disks,
    "ports": network.check_ports,
    "certificates": network.check_certificates,
    "registries": network.check_registries,
}


@dataclass(frozen=True, slots=True)
class Examined:
    check: str
    findings: list[Finding]


def run(only: frozenset[str] = frozenset()) -> list[Examined]:
    """Run all checks, or those named; one that fails is a finding. Raises SkepError
    `check_unknown`."""
    if unknown := sorted(only - CHECKS.keys()):
        message = f"There is no check {unknown[0]}; there are: {', '.join(CHECKS)}."
        raise SkepError(message, code="check_unknown", field="checks", checks=unknown)
    wanted = {name: check for name, check in CHECKS.items() if not only or name in only}
    return [Examined(name, examine(check)) for name, check in wanted.items()]


def healthy(examined: list[Examined], *, strict: bool = False) -> bool:
    """Return whether there is no error; `strict`: no warning either."""
    bad = (ERROR, WARNING) if strict else (ERROR,)
    return all(one.severity not in bad for check in examined for one in check.findings)
