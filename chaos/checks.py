"""What must hold at every moment, and at the end.

The database records each change of a state by triggers of ours, so that no state between two looks
is missed. The engines' ledger is the word of the nodes, the API that of a user.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import httpx
from chaos.box import Box
from chaos.engine import STREAMS, Run
from chaos.workload import Workload

# How long rows and containers may disagree while nothing is broken; a lease that ends, or a
# message that is sent again, is within it.
STUCK_S = 45.0
SETTLED_S = 10.0  # after which the log of a container should be whole
LOGS_AT_ONCE = 8

# No foreign tables are touched; the product does not see them.
WITNESS = """
CREATE TABLE IF NOT EXISTS chaos_change (
    id bigserial PRIMARY KEY, kind text, subject uuid, before text, after text,
    at timestamptz DEFAULT clock_timestamp());
CREATE OR REPLACE FUNCTION chaos_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_change (kind, subject, before, after)
    VALUES (TG_TABLE_NAME, NEW.id, OLD.state, NEW.state);
    RETURN NULL;
END $$;
CREATE TABLE IF NOT EXISTS chaos_lease (
    id bigserial PRIMARY KEY, device text, slot int, attempt uuid, taken boolean);
CREATE OR REPLACE FUNCTION chaos_leased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_lease (device, slot, attempt, taken)
    VALUES (NEW.device_id, NEW.slot, NEW.attempt_id, TG_OP = 'INSERT');
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER chaos_lease_taken AFTER INSERT ON jobs_lease
    FOR EACH ROW EXECUTE FUNCTION chaos_leased();
CREATE OR REPLACE TRIGGER chaos_lease_given AFTER UPDATE OF released_at ON jobs_lease
    FOR EACH ROW WHEN (OLD.released_at IS NULL AND NEW.released_at IS NOT NULL)
    EXECUTE FUNCTION chaos_leased();
CREATE OR REPLACE TRIGGER chaos_job AFTER UPDATE OF state ON jobs_job
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION chaos_changed();
CREATE OR REPLACE TRIGGER chaos_attempt AFTER UPDATE OF state ON jobs_taskattempt
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION chaos_changed();
"""

# A job is started again from RUNNING; nothing else goes back, and no end is left.
JOB_ORDER = {"WAITING": 0, "RUNNING": 1, "STOPPING": 2, "SUCCEEDED": 3, "FAILED": 3, "STOPPED": 3}
ATTEMPT_ORDER = {"ASSIGNED": 0, "PREPARING": 1, "RUNNING": 2, "STOPPING": 3, "SUCCEEDED": 4}
ATTEMPT_ORDER |= {"FAILED": 4, "STOPPED": 4, "LOST": 4}

# By the order in which the database gave and took them: the times in the rows are those of servers,
# whose clocks jump.
OVERLAPS = """
SELECT device, attempt FROM (
    SELECT *, sum(CASE WHEN taken THEN 1 ELSE -1 END) OVER (
                  PARTITION BY device, slot ORDER BY id) AS held
      FROM chaos_lease) counted
 WHERE held > 1
"""


def goes_back(kind: str, before: str, after: str) -> bool:
    """Return whether a change of a job's or an attempt's state leads backwards."""
    if kind == "jobs_job":
        again = before == "RUNNING" and after == "WAITING"
        return not again and JOB_ORDER[after] <= JOB_ORDER[before]
    return ATTEMPT_ORDER[after] <= ATTEMPT_ORDER[before]


class Checks:
    """`look` between faults and `finish` at the end; what they find is in `violations`."""

    def __init__(self, box: Box, workload: Workload) -> None:
        self.violations: list[str] = []
        self._box = box
        self._workload = workload
        self._seen_change = 0
        self._read: set[str] = set()  # containers whose logs are complete
        self._disagree_since: dict[tuple[str, str], float] = {}
        box.query(WITNESS)

    def all_violations(self) -> list[str]:
        return [*self._box.ledger.violations, *self._workload.violations, *self.violations]

    def look(self) -> None:
        """Raises psycopg.Error while there is no database."""
        rows = self._box.query(
            "SELECT id, kind, subject, before, after FROM chaos_change WHERE id > %s ORDER BY id",
            self._seen_change,
        )
        for id_, kind, subject, before, after in rows:
            self._seen_change = id_
            if goes_back(kind, before, after):
                self.violations.append(f"{kind} {subject} went from {before} to {after}")
        self._compare_with_nodes()

    def look_at_logs(self) -> None:
        """Check logs of attempts that have ended a while ago, a few at a time. What is not complete
        yet is looked at again at the end. Raises psycopg.Error and httpx.HTTPError."""
        until = time.monotonic() - SETTLED_S
        due = [run for run in self._unread() if run.ended is not None and run.ended < until]
        with self._box.stack.api() as api:
            for run in due[:LOGS_AT_ONCE]:
                if not self._log_problems(api, run, whole=True):
                    self._read.add(run.container_id)

    def faulted(self) -> None:
        """Something was broken: what rows and containers disagree on counts from now."""
        self._disagree_since.clear()

    def _compare_with_nodes(self) -> None:
        """Report what stays different for too long: an attempt that runs by the database alone, or
        a container whose attempt has given back its GPUs."""
        rows = self._box.query(
            "SELECT a.id::text, a.state, a.released_at IS NOT NULL, n.state "
            "FROM jobs_taskattempt a JOIN cluster_node n ON n.id = a.node_id "
            "WHERE a.released_at IS NULL OR a.released_at > now() - interval '10 minutes'"
        )
        running = self._box.ledger.running()
        known = {id_: (state, released) for id_, state, released, _ in rows}
        wrong: set[tuple[str, str]] = set()
        for id_, (state, released) in known.items():
            if state == "RUNNING" and id_ not in running:
                wrong.add(("RUNNING without a container", id_))
            if released and id_ in running:
                wrong.add(("released with a running container", id_))
            if state in ("ASSIGNED", "STOPPING") and not released:
                wrong.add((f"{state} all the time", id_))
        wrong |= {("a container without an attempt", id_) for id_ in running if id_ not in known}
        now = time.monotonic()
        since = self._disagree_since
        self._disagree_since = {key: since.get(key, now) for key in wrong}
        for key, at in self._disagree_since.items():
            if now - at > STUCK_S * self._box.timing.patience:
                self._disagree_since[key] = now + 1e9  # reported once
                self.violations.append(f"attempt {key[1]}: {key[0]} for {STUCK_S:.0f} s")

    # --- the end

    def finish(self) -> None:
        """Check everything that ever ran, once all jobs have ended. Raises psycopg.Error and
        httpx.TransportError."""
        self.look()
        for device, attempt in self._box.query(OVERLAPS):
            self.violations.append(f"{device} was leased to attempt {attempt} and to another one")
        [(leases,)] = self._box.query("SELECT count(*) FROM jobs_lease WHERE released_at IS NULL")
        if leases:
            self.violations.append(f"{leases} leases are not given back")
        self._check_logs()
        for attempt, run in self._box.ledger.running().items():
            self.violations.append(f"the container of attempt {attempt} on {run.node} still runs")

    def _check_logs(self) -> None:
        """Logs are what the containers wrote. Of an attempt that was lost with its node the end may
        be missing, but nothing in between."""
        rows = self._box.query("SELECT id::text, state FROM jobs_taskattempt")
        states = dict(rows)
        with self._box.stack.api() as api:
            for run in self._unread():
                state = states.get(run.attempt_id)
                if state is None:
                    self.violations.append(f"attempt {run.attempt_id} ran and is not known")
                elif run.ended is not None:
                    self.violations += self._log_problems(api, run, whole=state != "LOST")

    def _unread(self) -> list[Run]:
        return [run for run in list(self._box.ledger.runs) if run.container_id not in self._read]

    def _log_problems(self, api: httpx.Client, run: Run, *, whole: bool) -> list[str]:
        problems = []
        for stream in STREAMS:
            path = f"/attempts/{run.attempt_id}/logs/{stream}"
            answer = api.get(path, params={"raw": "true"}).raise_for_status()
            wrote, stored = run.output(stream), answer.content
            if stored == wrote or (not whole and wrote.startswith(stored)):
                continue
            problems.append(
                f"log {stream} of attempt {run.attempt_id}: {len(stored)} of {len(wrote)} bytes, "
                f"equal up to {_equal(stored, wrote)}"
            )
        return problems


def _equal(one: bytes, other: bytes) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def summary(violations: Iterable[str]) -> str:
    return "\n".join(f"  {text}" for text in violations)
