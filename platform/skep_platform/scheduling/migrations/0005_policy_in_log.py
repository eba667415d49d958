"""A change of a virtual cluster's policy is a change that the scheduler sees."""

from __future__ import annotations

from django.db import migrations

TRIGGER = """
CREATE TRIGGER scheduling_vc_policy AFTER UPDATE OF policy ON tenancy_virtualcluster
    FOR EACH ROW WHEN (OLD.policy IS DISTINCT FROM NEW.policy)
    EXECUTE FUNCTION scheduling_log_statement('inventory');
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0004_vc_use_unavailable"), ("tenancy", "0006_policy")]

    operations = [
        migrations.RunSQL(TRIGGER, "DROP TRIGGER scheduling_vc_policy ON tenancy_virtualcluster;")
    ]
