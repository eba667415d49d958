"""Triggers on `UsageDay` that keep its sums, and functions that compute sums anew.

A statement that changes days adds the differences to `UsageRollup`, and the sums of the jobs that
it touched are read anew into `JobUsage`: both in its own transaction. Before the first row
is locked, a transaction takes the lock of the count of leases: also the deletion of a virtual
cluster or a user, which would lock rows in another order than a count does."""

from __future__ import annotations

from django.db import migrations

LOCK = 0x5CEE  # that of the count of leases
KEY = "monthly, day, vc_id, user_id, gpu_model, guaranteed"
ADDED = "day, user_id, vc_id, gpu_model, guaranteed, job_id, allocated_us, used_us, known_us"
REMOVED = (
    "day, user_id, vc_id, gpu_model, guaranteed, job_id, -allocated_us AS allocated_us, "
    "-used_us AS used_us, -known_us AS known_us"
)
# The day and its month; the user in its virtual cluster, the virtual cluster, and all.
LEVELS = """
    CROSS JOIN LATERAL (VALUES (n.user_id, n.vc_id), (NULL, n.vc_id), (NULL, NULL))
          AS g(user_id, vc_id)"""
SPANS = """
    CROSS JOIN LATERAL (VALUES (false, n.day), (true, date_trunc('month', n.day::timestamp)::date))
          AS s(monthly, day)"""
SUMS = "sum(n.allocated_us)::bigint, sum(n.used_us)::bigint, sum(n.known_us)::bigint"


def _net(changes: str) -> str:
    return f"""
    WITH n AS (
        SELECT day, user_id, vc_id, gpu_model, guaranteed, sum(allocated_us) AS allocated_us,
               sum(used_us) AS used_us, sum(known_us) AS known_us
          FROM ({changes}) changes GROUP BY 1, 2, 3, 4, 5
        HAVING sum(allocated_us) <> 0 OR sum(used_us) <> 0 OR sum(known_us) <> 0
    ), given ({KEY}, allocated_us, used_us, known_us) AS (
        SELECT s.monthly, s.day, g.vc_id, g.user_id, n.gpu_model, n.guaranteed, {SUMS}
          FROM n{SPANS}{LEVELS}
         GROUP BY 1, 2, 3, 4, 5, 6
    )"""  # noqa: S608 no values


def _trigger(event: str, tables: str, changes: str, write: str) -> str:
    return f"""
CREATE FUNCTION usage_roll_up_{event}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {_net(changes)}
    {write};
    PERFORM usage_sum_jobs(ARRAY(
        SELECT DISTINCT job_id FROM ({changes}) changes WHERE job_id IS NOT NULL));
    RETURN NULL;
END $$;
CREATE TRIGGER usage_roll_up_{event} AFTER {event} ON usage_usageday REFERENCING {tables}
    FOR EACH STATEMENT EXECUTE FUNCTION usage_roll_up_{event}();
"""  # noqa: S608 no values


NEW_ROWS = f"SELECT {ADDED} FROM added"  # noqa: S608 no values
OLD_ROWS = f"SELECT {REMOVED} FROM removed"  # noqa: S608 no values
ADD = f"""
    INSERT INTO usage_usagerollup AS r ({KEY}, allocated_us, used_us, known_us)
    SELECT * FROM given
        ON CONFLICT ({KEY}) DO UPDATE
       SET allocated_us = r.allocated_us + excluded.allocated_us,
           used_us = r.used_us + excluded.used_us, known_us = r.known_us + excluded.known_us"""
# No row is made for what is deleted: its virtual cluster may be, too.
TAKE = """
    UPDATE usage_usagerollup r
       SET allocated_us = r.allocated_us + g.allocated_us, used_us = r.used_us + g.used_us,
           known_us = r.known_us + g.known_us
      FROM given g
     WHERE r.monthly = g.monthly AND r.day = g.day AND r.gpu_model = g.gpu_model
       AND r.guaranteed = g.guaranteed AND r.vc_id IS NOT DISTINCT FROM g.vc_id
       AND r.user_id IS NOT DISTINCT FROM g.user_id"""

FUNCTIONS = f"""
CREATE FUNCTION usage_sum_jobs(jobs uuid[]) RETURNS void LANGUAGE sql AS $$
WITH sums AS (
    SELECT job_id, max(user_id) AS user_id, (array_agg(vc_id))[1] AS vc_id,
           CASE WHEN min(gpu_model) = max(gpu_model) THEN min(gpu_model) END AS gpu_model,
           date_trunc('month', min(day)::timestamp)::date AS month, min(day) AS first_day,
           max(day) AS last_day, sum(allocated_us)::bigint AS allocated_us,
           coalesce(sum(allocated_us) FILTER (WHERE guaranteed), 0)::bigint AS guaranteed_us,
           sum(used_us)::bigint AS used_us, sum(known_us)::bigint AS known_us
      FROM usage_usageday WHERE job_id = ANY(jobs) GROUP BY 1
), gone AS (
    DELETE FROM usage_jobusage WHERE job_id = ANY(jobs) AND job_id NOT IN (SELECT job_id FROM sums)
)
INSERT INTO usage_jobusage AS u (job_id, user_id, vc_id, gpu_model, month, first_day, last_day,
                                 allocated_us, guaranteed_us, used_us, known_us)
SELECT * FROM sums
    ON CONFLICT (job_id) DO UPDATE
   SET gpu_model = excluded.gpu_model, month = excluded.month, first_day = excluded.first_day,
       last_day = excluded.last_day, allocated_us = excluded.allocated_us,
       guaranteed_us = excluded.guaranteed_us, used_us = excluded.used_us,
       known_us = excluded.known_us
$$;
CREATE FUNCTION usage_sum_day(given date) RETURNS void LANGUAGE sql AS $$
DELETE FROM usage_usagerollup WHERE NOT monthly AND day = given;
INSERT INTO usage_usagerollup ({KEY}, allocated_us, used_us, known_us)
SELECT false, given, g.vc_id, g.user_id, n.gpu_model, n.guaranteed, {SUMS}
  FROM usage_usageday n{LEVELS}
 WHERE n.day = given GROUP BY 3, 4, 5, 6
$$;
CREATE FUNCTION usage_sum_month(given date) RETURNS void LANGUAGE sql AS $$
DELETE FROM usage_usagerollup WHERE monthly AND day = given;
INSERT INTO usage_usagerollup ({KEY}, allocated_us, used_us, known_us)
SELECT true, given, n.vc_id, n.user_id, n.gpu_model, n.guaranteed, {SUMS}
  FROM usage_usagerollup n
 WHERE NOT n.monthly AND n.day >= given AND n.day < (given + interval '1 month')::date
 GROUP BY 3, 4, 5, 6
$$;
"""  # noqa: S608 no values
TRIGGERS = [
    _trigger("insert", "NEW TABLE AS added", NEW_ROWS, ADD),
    _trigger(
        "update",
        "OLD TABLE AS removed NEW TABLE AS added",
        f"{NEW_ROWS} UNION ALL {OLD_ROWS}",
        ADD,
    ),
    _trigger("delete", "OLD TABLE AS removed", OLD_ROWS, TAKE),
]
# A trigger for each statement before it: also one that then finds no row.
LOCKING = f"""
CREATE FUNCTION usage_lock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock({LOCK});
    RETURN NULL;
END $$;
CREATE TRIGGER usage_lock BEFORE INSERT OR UPDATE OR DELETE ON usage_usageday
    FOR EACH STATEMENT EXECUTE FUNCTION usage_lock();
CREATE TRIGGER usage_lock BEFORE DELETE ON usage_usagerollup
    FOR EACH STATEMENT EXECUTE FUNCTION usage_lock();
CREATE TRIGGER usage_lock BEFORE DELETE ON usage_jobusage
    FOR EACH STATEMENT EXECUTE FUNCTION usage_lock();
"""
NO_LOCKING = """
DROP TRIGGER usage_lock ON usage_usageday; DROP TRIGGER usage_lock ON usage_usagerollup;
DROP TRIGGER usage_lock ON usage_jobusage; DROP FUNCTION usage_lock();
"""
NO_TRIGGERS = "".join(
    f"DROP TRIGGER usage_roll_up_{event} ON usage_usageday; DROP FUNCTION usage_roll_up_{event}();"
    for event in ("insert", "update", "delete")
)
NO_FUNCTIONS = """
DROP FUNCTION usage_sum_jobs(uuid[]); DROP FUNCTION usage_sum_day(date);
DROP FUNCTION usage_sum_month(date);
"""


class Migration(migrations.Migration):
    dependencies = [("usage", "0003_rollups")]

    operations = [
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
        migrations.RunSQL("".join(TRIGGERS), NO_TRIGGERS),
        migrations.RunSQL(LOCKING, NO_LOCKING),
    ]
