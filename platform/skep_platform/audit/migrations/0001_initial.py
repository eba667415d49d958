"""The partitioned table of audit entries, its triggers, and the partitions to begin with."""

import skep_platform.core.models
from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations, models

TABLE = """
CREATE TABLE audit_entry (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    action varchar(64) NOT NULL,
    outcome varchar(8) NOT NULL,
    actor_kind varchar(9) NOT NULL,
    actor_id bigint,
    actor_name varchar(255) NOT NULL,
    token_id uuid,
    token_name varchar(100) NOT NULL,
    token_scope varchar(8) NOT NULL,
    address varchar(64) NOT NULL,
    user_agent varchar(200) NOT NULL,
    request_id varchar(64) NOT NULL,
    target_type varchar(32) NOT NULL,
    target_id varchar(64) NOT NULL,
    target_name varchar(255) NOT NULL,
    vc_id uuid,
    vc_name varchar(63) NOT NULL,
    before jsonb,
    after jsonb,
    facts jsonb NOT NULL
) PARTITION BY RANGE (id);

CREATE INDEX audit_actor_id ON audit_entry (actor_id, id);
CREATE INDEX audit_actor_name ON audit_entry (actor_name, id);
CREATE INDEX audit_vc ON audit_entry (vc_id, id);
CREATE INDEX audit_action ON audit_entry (action, id);
CREATE INDEX audit_address ON audit_entry (address, id);
CREATE INDEX audit_target_type ON audit_entry (target_type, id);
CREATE INDEX audit_refused ON audit_entry (id) WHERE outcome = 'refused';
CREATE INDEX audit_target_name ON audit_entry USING gin (target_name gin_trgm_ops);

CREATE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The audit log is append-only: % of % is refused.', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Old months are dropped by the retention task only.';
END $$;

-- Partitions inherit a row's trigger; each needs its own against TRUNCATE.
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit_entry
    FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();

-- The smallest UUID of version 7 at a time.
CREATE FUNCTION audit_first_id(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0')
            || repeat('0', 20))::uuid
$$;

-- Entries outside of all months, after a clock was wrong or the task did not run for long.
CREATE FUNCTION audit_add_default() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CREATE TABLE audit_entry_default PARTITION OF audit_entry DEFAULT;
    CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit_entry_default
        FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
END $$;

CREATE FUNCTION audit_add_month(at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    first timestamptz := date_trunc('month', at, 'UTC');
    name text := 'audit_entry_' || to_char(first AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format(
        'CREATE TABLE %I PARTITION OF audit_entry FOR VALUES FROM (%L) TO (%L)', name,
        audit_first_id(first), audit_first_id(date_trunc('month', first + '40 days', 'UTC')));
    EXECUTE format(
        'CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON %I '
        'FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()', name);
    RETURN true;
EXCEPTION WHEN check_violation THEN
    RETURN false;  -- entries of this month are in the default partition already
END $$;

SELECT audit_add_default();
SELECT audit_add_month(date_trunc('month', now(), 'UTC') + make_interval(months => n, days => 9)) FROM generate_series(0, 2) n;
"""

UNDO = """
DROP TABLE audit_entry;
DROP FUNCTION audit_add_month, audit_add_default, audit_first_id, audit_refuse_change;
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        TrigramExtension(),
        migrations.RunSQL(TABLE, UNDO),
        # The table is not managed: this only makes the model known.
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=skep_platform.core.models.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("action", models.CharField(max_length=64)),
                (
                    "outcome",
                    models.CharField(
                        choices=[("done", "Done"), ("refused", "Refused")], max_length=8
                    ),
                ),
                (
                    "actor_kind",
                    models.CharField(
                        choices=[
                            ("user", "User"),
                            ("anonymous", "Anonymous"),
                            ("node", "Node"),
                            ("system", "System"),
                        ],
                        max_length=9,
                    ),
                ),
                ("actor_id", models.BigIntegerField(null=True)),
                ("actor_name", models.CharField(blank=True, max_length=255)),
                ("token_id", models.UUIDField(null=True)),
                ("token_name", models.CharField(blank=True, max_length=100)),
                ("token_scope", models.CharField(blank=True, max_length=8)),
                ("address", models.CharField(blank=True, max_length=64)),
                ("user_agent", models.CharField(blank=True, max_length=200)),
                ("request_id", models.CharField(blank=True, max_length=64)),
                ("target_type", models.CharField(max_length=32)),
                ("target_id", models.CharField(blank=True, max_length=64)),
                ("target_name", models.CharField(blank=True, max_length=255)),
                ("vc_id", models.UUIDField(null=True)),
                ("vc_name", models.CharField(blank=True, max_length=63)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("facts", models.JSONField(default=dict)),
            ],
            options={
                "db_table": "audit_entry",
                "managed": False,
            },
        ),
    ]
