"""Leader election between processes of one kind: one leads, the others stand by.

A role is a row with a lease, as the Lease of Kubernetes. The leader renews it every `LEADING_S`, a
third of the lease, and the others ask for it every `RENEW_S`. When the leader dies, hangs, is
stopped or loses the database, the lease ends and a standby takes it, within `LEASE_S + RENEW_S`
(3.5 s). The database's clock alone decides when a lease ends. The leader counts its own lease from
before it asked, so it knows that it leads no longer before another one leads.

The lease is renewed by a thread, which lives on when the work hangs, for instance on an answer that
the network lost. Work that runs for longer than `STUCK_S` is therefore not renewed.

    leader = leadership.Leader("scheduler")
    leader.start()          # renews from a thread
    if leader.leads(): ...
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import structlog
from django.db import Error, close_old_connections, connection
from prometheus_client import Gauge

from skep_platform.core import failures

log = structlog.get_logger(__name__)

LEASE_S = 3.0
RENEW_S = 0.5
LEADING_S = 1.0  # between two renewals of the leader; after one that failed it tries again sooner
STUCK_S = 120.0  # longer than any round of a scheduler takes
LEADS = Gauge("skep_leader", "1 in the process that leads, 0 in one that stands by.", ["role"])

_CLAIM = """
INSERT INTO core_leadership AS lease (role, owner, term, expires_at)
VALUES (%(role)s, %(owner)s, 1, clock_timestamp() + %(lease_s)s * interval '1 second')
ON CONFLICT (role) DO UPDATE SET
    owner = excluded.owner,
    term = lease.term + (lease.owner <> excluded.owner)::int,
    expires_at = excluded.expires_at
WHERE lease.owner = excluded.owner OR lease.expires_at < clock_timestamp()
RETURNING term
"""
_RESIGN = """
UPDATE core_leadership SET expires_at = clock_timestamp() WHERE role = %s AND owner = %s
"""


class Leader:
    """A candidate of this process for a role. Safe to be used from several threads."""

    def __init__(self, role: str, stuck_s: float = STUCK_S) -> None:
        self.role = role
        self._stuck_s = stuck_s
        self._working_since: float | None = None
        self._stuck = False
        # The process id names it in logs; two candidates of a process are not the same one.
        self.owner = f"{socket.gethostname()[:80]}/{os.getpid()}/{uuid4().hex[:8]}"
        self.term = 0
        self._until = 0.0  # of the monotonic clock
        self._lock = threading.Lock()
        self._resigned = threading.Event()
        self._thread: threading.Thread | None = None

    def leads(self) -> bool:
        """Return whether this process leads for certain. Costs no query."""
        return time.monotonic() < self._until

    def claim(self) -> bool:
        """Take the role or renew it. Returns False while another process has it. Raises
        django.db.Error."""
        with self._lock:
            if self._resigned.is_set():
                return False
            asked, led = time.monotonic(), self._until > 0
            with connection.cursor() as cursor:
                values: dict[str, str | float] = {
                    "role": self.role,
                    "owner": self.owner,
                    "lease_s": LEASE_S,
                }
                cursor.execute(_CLAIM, values)
                row = cursor.fetchone()
            is_new = row is not None and row[0] != self.term
            if row is not None:
                self.term = row[0]  # before it leads, so that who works knows which term it is
            self._until = asked + LEASE_S if row else 0.0
        if is_new:
            log.info("leads", role=self.role, owner=self.owner, term=self.term)
        elif led and not row:
            log.warning("leads_no_longer", role=self.role, owner=self.owner, term=self.term)
        LEADS.labels(self.role).set(bool(row))
        return bool(row)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Do a piece of work as the leader. When it lasts too long the role goes to a standby."""
        self._working_since = time.monotonic()
        try:
            yield
        finally:
            self._working_since = None

    @property
    def started(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        """Claim and renew from a thread until `resign`."""
        if self._thread is None:
            name = f"leader-{self.role}"
            self._thread = threading.Thread(target=self._renew, daemon=True, name=name)
            self._thread.start()

    def resign(self) -> None:
        """Give the role up, so that a standby need not wait for the end of the lease. Without the
        database the lease ends by itself."""
        self._resigned.set()
        with self._lock:
            self._until = 0.0
            LEADS.labels(self.role).set(0)
            try:
                with connection.cursor() as cursor:
                    cursor.execute(_RESIGN, [self.role, self.owner])
            except Error as error:
                log.warning("lease_not_given_up", role=self.role, error=str(error)[:200])

    def _renew(self) -> None:
        while not self._resigned.is_set():
            renewed = False
            try:
                if not self._is_stuck():
                    renewed = self.claim()
            except Error as error:
                log.warning("lease_not_renewed", role=self.role, error=str(error)[:200])
                failures.leave_if_read_only(error)
            finally:
                close_old_connections()  # back to the pool
            self._resigned.wait(LEADING_S if renewed else RENEW_S)

    def _is_stuck(self) -> bool:
        since = self._working_since
        stuck = since is not None and time.monotonic() - since > self._stuck_s
        if stuck and not self._stuck:
            log.error("leader_stuck", role=self.role, owner=self.owner, after_s=self._stuck_s)
            LEADS.labels(self.role).set(0)
        self._stuck = stuck
        return stuck
