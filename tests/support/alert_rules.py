"""Alert rules, what meets them, and who is notified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

from skep_platform.cluster.models import Device, Node
from skep_platform.notifications import collecting
from skep_platform.notifications.models import Notification
from skep_platform.operations import rules
from skep_platform.operations.models import AlertRule


def rule(kind: str, **fields: Any) -> AlertRule:
    return rules.create(**{"name": kind, "kind": kind} | fields)


def sicken(node: Node, gpus: int = 1) -> None:
    found = Device.objects.filter(node=node).order_by("index")[:gpus]
    Device.objects.filter(pk__in=[d.pk for d in found]).update(health="BAD")


def sent(user: Any) -> list[str]:
    """Return what a user was notified of."""
    collecting.collect()
    return [n["message"] for one in Notification.objects.filter(user=user) for n in one.items]


@contextmanager
def locked_elsewhere(node: Node) -> Iterator[None]:
    """Have another transaction hold the row of a node; a statement of this one that waits for it
    fails at once. Both need what was committed."""
    params = connection.get_connection_params()
    known = {name: params[name] for name in ("host", "port", "dbname", "user", "password")}
    with psycopg.connect(**{k: v for k, v in known.items() if v}) as other:
        other.execute("SELECT FROM cluster_node WHERE id = %s FOR UPDATE", [node.pk])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")
            other.rollback()
