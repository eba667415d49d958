"""The end of the rows that the tables of rollups have before they are partitioned by months: the
first of a month, at least ten days from now. Nothing is looked at yet."""

from django.db import migrations

# The name says the end. Servers go on: the next three migrations must be over before it.
END = """
DO $$
DECLARE
    first timestamptz := date_trunc('month', now() + '40 days', 'UTC');
BEGIN
    EXECUTE format('ALTER TABLE {table} ADD CONSTRAINT %I CHECK (at < %L) NOT VALID',
                   '{table}_until_' || to_char(first AT TIME ZONE 'UTC', 'YYYY_MM'), first);
END $$;
"""
TABLES = ("telemetry_gpurollup", "telemetry_taskrollup")


class Migration(migrations.Migration):
    dependencies = [
        ("telemetry", "0011_history"),
    ]

    operations = [migrations.RunSQL(END.format(table=table)) for table in TABLES]
