"""Whether the budget of a virtual cluster is used up is a part of its jobs that wait, and of those
that were started without their guarantee."""

from __future__ import annotations

from django.db import migrations

FUNCTION = """
CREATE FUNCTION scheduling_log_budget() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT pg_current_xact_id()::text::bigint, 'gang', id::text, statement_timestamp()
      FROM jobs_job
     WHERE vc_id = COALESCE(NEW.vc_id, OLD.vc_id)
       AND state IN ('WAITING', 'RUNNING', 'STOPPING')
       AND (placed_at IS NULL OR downgraded IS NOT NULL);
    RETURN NULL;
END $$;
"""

TRIGGERS = """
CREATE TRIGGER scheduling_budget_new AFTER INSERT ON usage_budget
    FOR EACH ROW WHEN (NEW.used_up) EXECUTE FUNCTION scheduling_log_budget();
CREATE TRIGGER scheduling_budget_changed AFTER UPDATE ON usage_budget
    FOR EACH ROW
    WHEN ((OLD.used_up OR NEW.used_up)
          AND (OLD.used_up, OLD.gpu_hours, OLD.month)
              IS DISTINCT FROM (NEW.used_up, NEW.gpu_hours, NEW.month))
    EXECUTE FUNCTION scheduling_log_budget();
CREATE TRIGGER scheduling_budget_gone AFTER DELETE ON usage_budget
    FOR EACH ROW WHEN (OLD.used_up) EXECUTE FUNCTION scheduling_log_budget();
"""

NO_TRIGGERS = """
DROP TRIGGER scheduling_budget_new ON usage_budget;
DROP TRIGGER scheduling_budget_changed ON usage_budget;
DROP TRIGGER scheduling_budget_gone ON usage_budget;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0009_attained_service"), ("usage", "0002_budget")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION scheduling_log_budget();"),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
