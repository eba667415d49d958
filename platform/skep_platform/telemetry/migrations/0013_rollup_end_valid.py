"""A look at every rollup, beside servers that read and write them: whether it is before the end.
So the next migration looks at none."""

from django.db import migrations

VALIDATE = """
DO $$
BEGIN
    EXECUTE (SELECT format('ALTER TABLE {table} VALIDATE CONSTRAINT %I', conname)
               FROM pg_constraint WHERE conrelid = '{table}'::regclass
                AND conname LIKE '{table}\\_until\\_%');
END $$;
"""
TABLES = ("telemetry_gpurollup", "telemetry_taskrollup")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("telemetry", "0012_rollup_end"),
    ]

    operations = [migrations.RunSQL(VALIDATE.format(table=table)) for table in TABLES]
