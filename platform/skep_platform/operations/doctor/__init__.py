"""`skep admin doctor`: looks at everything that Skep stands on, and says what to do.

Each check is a function that yields findings. They run one after the other, as they read the
database; those that ask other machines ask all of them at once, for `network.PATIENCE_S`.
"""

from __future__ import annotations

from dataclasses import dataclass

from skep_platform.operations.doctor import network, nodes, server, stores
from skep_platform.operations.doctor.findings import ERROR, Check, Finding, examine

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
    """Run all checks, or those named. Never raises: a check that fails is a finding."""
    wanted = {name: check for name, check in CHECKS.items() if not only or name in only}
    return [Examined(name, examine(check)) for name, check in wanted.items()]


def healthy(examined: list[Examined]) -> bool:
    """Return whether there is no error."""
    return all(one.severity != ERROR for check in examined for one in check.findings)
