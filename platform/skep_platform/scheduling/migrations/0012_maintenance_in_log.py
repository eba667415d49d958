"""The maintenance of a node that is planned, moved or over is a change of that node."""

from __future__ import annotations

from django.db import migrations

TRIGGER = """
CREATE TRIGGER scheduling_node_maintenance
    AFTER UPDATE OF maintenance_from, maintenance_until ON cluster_node
    FOR EACH ROW WHEN (
        (OLD.maintenance_from, OLD.maintenance_until)
        IS DISTINCT FROM (NEW.maintenance_from, NEW.maintenance_until)
    )
    EXECUTE FUNCTION scheduling_log_row('node');
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0011_user_limits"), ("cluster", "0018_node_life")]

    operations = [
        migrations.RunSQL(TRIGGER, "DROP TRIGGER scheduling_node_maintenance ON cluster_node;")
    ]
