"""A function that makes a month of a table which is partitioned by months; see `database.months`."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION add_month(parent text, at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    first timestamptz := date_trunc('month', at, 'UTC');
    next timestamptz := date_trunc('month', first + '40 days', 'UTC');
    name text := parent || to_char(first AT TIME ZONE 'UTC', '_YYYY_MM');
    filled boolean;
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    -- Rows of this month may be in the default partition already: seen without a lock of all.
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE at >= %L AND at < %L)',
                   parent || '_default', first, next) INTO filled;
    IF filled THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', parent);
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;  -- made meanwhile
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name, parent,
                   first, next);
    -- For whoever replicates it: these tables have no primary key.
    EXECUTE format('ALTER TABLE %I REPLICA IDENTITY FULL', name);
    RETURN true;
EXCEPTION WHEN check_violation THEN
    RETURN false;  -- such a row came meanwhile
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("core", "0006_leadership"),
    ]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION add_month;"),
    ]
