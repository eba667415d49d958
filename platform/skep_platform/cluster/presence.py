"""Whether the control plane itself was there: it may not judge nodes by the end of a lease that it
could not renew.

Every gateway writes a row a few times within `gap()`. A longer silence is an absence of all of
them, after which every node has a full lease to come back before it is judged. Waiting longer is
always safe: agents fence themselves by their own clocks.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import connection

from skep_platform.cluster.models import ControlPlane

ROW = 1
LONGEST_GAP_S = 5.0


def gap() -> timedelta:
    """How long no gateway may be seen before that counts as an absence; a part of the lease, so
    that no lease runs out before the absence is noticed."""
    return timedelta(seconds=min(LONGEST_GAP_S, settings.SKEP_LEASE_S / 4))


def beat_interval_s() -> float:
    """How often a gateway calls `beat`."""
    return gap().total_seconds() / 5


def beat() -> None:
    """A gateway is up, and accepts agents. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(BEAT, {"row": ROW, "gap_s": gap().total_seconds()})


BEAT = """
INSERT INTO cluster_controlplane AS c (id, seen_at, since)
VALUES (%(row)s, statement_timestamp(), statement_timestamp())
ON CONFLICT (id) DO UPDATE
   SET since = CASE WHEN c.seen_at < statement_timestamp() - make_interval(secs => %(gap_s)s)
                    THEN statement_timestamp() ELSE c.since END,
       seen_at = greatest(c.seen_at, statement_timestamp())
"""


def may_judge(lease: timedelta) -> bool:
    """Whether a gateway is up, and has been for a whole lease. True where none was ever seen."""
    with connection.cursor() as cursor:
        values = {"row": ROW, "gap_s": gap().total_seconds(), "lease_s": lease.total_seconds()}
        cursor.execute(JUDGE, values)
        row = cursor.fetchone()
    return row is None or bool(row[0])


JUDGE = """
SELECT seen_at >= statement_timestamp() - make_interval(secs => %(gap_s)s)
   AND since <= statement_timestamp() - make_interval(secs => %(lease_s)s)
  FROM cluster_controlplane WHERE id = %(row)s
"""


def absent_since() -> ControlPlane | None:
    """The row, for health pages; None where no gateway was ever seen."""
    return ControlPlane.objects.filter(pk=ROW).first()
