"""A node that starts or stops draining is a change of that node, also when it is already cordoned."""

from __future__ import annotations

from django.db import migrations

# `scheduling_node_changed` has logged the row when `cordoned` changed with it.
TRIGGER = """
CREATE TRIGGER scheduling_node_draining AFTER UPDATE OF draining ON cluster_node
    FOR EACH ROW WHEN (OLD.draining IS DISTINCT FROM NEW.draining AND OLD.cordoned = NEW.cordoned)
    EXECUTE FUNCTION scheduling_log_row('node');
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0007_new_devices_once"), ("cluster", "0003_draining")]

    operations = [
        migrations.RunSQL(TRIGGER, "DROP TRIGGER scheduling_node_draining ON cluster_node;")
    ]
