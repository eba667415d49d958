"""The change log's triggers: whatever changes a row that the scheduler sees, it is told.

A row of the log carries the id of the transaction that wrote it. A reader remembers the oldest
transaction that was running when it read (`pg_snapshot_xmin`) and reads from there the next time:
so no order of commits can hide a change from it. Column lists and conditions keep what the
scheduler does not look at (heartbeats, revisions, progress of containers) free of any cost.
"""

from django.db import migrations, models

FUNCTIONS = """
CREATE FUNCTION scheduling_log_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    VALUES (pg_current_xact_id()::text::bigint, TG_ARGV[0], COALESCE(NEW.id, OLD.id)::text,
            statement_timestamp());
    RETURN NULL;
END $$;

CREATE FUNCTION scheduling_log_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    VALUES (pg_current_xact_id()::text::bigint, TG_ARGV[0], '', statement_timestamp());
    RETURN NULL;
END $$;

CREATE FUNCTION scheduling_log_device() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, 'node', node::text, statement_timestamp()
      FROM unnest(ARRAY[OLD.node_id, NEW.node_id]) AS node WHERE node IS NOT NULL;
    RETURN NULL;
END $$;

CREATE FUNCTION scheduling_log_reservation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    VALUES (pg_current_xact_id()::text::bigint, 'gang', COALESCE(NEW.job_id, OLD.job_id)::text,
            statement_timestamp());
    RETURN NULL;
END $$;

CREATE FUNCTION scheduling_log_placed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, 'gang', job_id::text, statement_timestamp()
      FROM placed;
    RETURN NULL;
END $$;

CREATE FUNCTION scheduling_log_released() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, 'gang', after.job_id::text,
           statement_timestamp()
      FROM before JOIN after USING (id)
     WHERE before.released_at IS DISTINCT FROM after.released_at;
    RETURN NULL;
END $$;
"""

TRIGGERS = """
CREATE TRIGGER scheduling_node_new AFTER INSERT OR DELETE ON cluster_node
    FOR EACH ROW EXECUTE FUNCTION scheduling_log_row('node');
CREATE TRIGGER scheduling_node_changed
    AFTER UPDATE OF name, state, cordoned, labels, topology, cpu_millis, memory_mb ON cluster_node
    FOR EACH ROW
    WHEN ((OLD.name, OLD.state, OLD.cordoned, OLD.labels, OLD.topology, OLD.cpu_millis,
           OLD.memory_mb)
          IS DISTINCT FROM
          (NEW.name, NEW.state, NEW.cordoned, NEW.labels, NEW.topology, NEW.cpu_millis,
           NEW.memory_mb))
    EXECUTE FUNCTION scheduling_log_row('node');

CREATE TRIGGER scheduling_device_new AFTER INSERT OR DELETE ON cluster_device
    FOR EACH ROW EXECUTE FUNCTION scheduling_log_device();
CREATE TRIGGER scheduling_device_changed
    AFTER UPDATE OF node_id, model, index, health ON cluster_device
    FOR EACH ROW
    WHEN ((OLD.node_id, OLD.model, OLD.index, OLD.health)
          IS DISTINCT FROM (NEW.node_id, NEW.model, NEW.index, NEW.health))
    EXECUTE FUNCTION scheduling_log_device();

CREATE TRIGGER scheduling_quota AFTER INSERT OR UPDATE OR DELETE ON tenancy_quota
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_statement('inventory');
CREATE TRIGGER scheduling_cell AFTER INSERT OR UPDATE OR DELETE ON tenancy_vccell
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_statement('inventory');
CREATE TRIGGER scheduling_pin AFTER INSERT OR UPDATE OR DELETE ON tenancy_pinnedcell
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_statement('inventory');
CREATE TRIGGER scheduling_vc AFTER INSERT OR DELETE ON tenancy_virtualcluster
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_statement('inventory');
CREATE TRIGGER scheduling_layout AFTER INSERT OR UPDATE OF text OR DELETE ON cluster_celllayout
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_statement('inventory');
-- The name of a VC is in every gang of it.
CREATE TRIGGER scheduling_vc_renamed AFTER UPDATE OF name ON tenancy_virtualcluster
    FOR EACH ROW WHEN (OLD.name IS DISTINCT FROM NEW.name)
    EXECUTE FUNCTION scheduling_log_statement('all');
CREATE TRIGGER scheduling_emptied AFTER TRUNCATE ON jobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_statement('all');

CREATE TRIGGER scheduling_job_new AFTER INSERT OR DELETE ON jobs_job
    FOR EACH ROW EXECUTE FUNCTION scheduling_log_row('gang');
CREATE TRIGGER scheduling_job_changed
    AFTER UPDATE OF state, attempt, placed_at, not_before, unplaced, priority, preemptible,
        lazy_preemption, duration_s, stop_requested_at, preempting_at, downgraded, exit_reason
    ON jobs_job
    FOR EACH ROW
    WHEN ((OLD.attempt, OLD.placed_at, OLD.not_before, OLD.unplaced, OLD.priority, OLD.preemptible,
           OLD.lazy_preemption, OLD.duration_s, OLD.stop_requested_at, OLD.preempting_at,
           OLD.downgraded, OLD.exit_reason IS NULL, OLD.state = 'WAITING' AND OLD.placed_at IS NULL)
          IS DISTINCT FROM
          (NEW.attempt, NEW.placed_at, NEW.not_before, NEW.unplaced, NEW.priority, NEW.preemptible,
           NEW.lazy_preemption, NEW.duration_s, NEW.stop_requested_at, NEW.preempting_at,
           NEW.downgraded, NEW.exit_reason IS NULL, NEW.state = 'WAITING' AND NEW.placed_at IS NULL))
    EXECUTE FUNCTION scheduling_log_row('gang');

CREATE TRIGGER scheduling_attempt_new AFTER INSERT ON jobs_taskattempt
    REFERENCING NEW TABLE AS placed
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_placed();
CREATE TRIGGER scheduling_attempt_released AFTER UPDATE ON jobs_taskattempt
    REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_released();
CREATE TRIGGER scheduling_attempt_gone AFTER DELETE ON jobs_taskattempt
    REFERENCING OLD TABLE AS placed
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_log_placed();

CREATE TRIGGER scheduling_reserved AFTER INSERT OR UPDATE OR DELETE ON scheduling_reservation
    FOR EACH ROW EXECUTE FUNCTION scheduling_log_reservation();
"""

TABLES = {
    "cluster_node": ["node_new", "node_changed"],
    "cluster_device": ["device_new", "device_changed"],
    "cluster_celllayout": ["layout"],
    "tenancy_quota": ["quota"],
    "tenancy_vccell": ["cell"],
    "tenancy_pinnedcell": ["pin"],
    "tenancy_virtualcluster": ["vc", "vc_renamed"],
    "jobs_job": ["emptied", "job_new", "job_changed"],
    "jobs_taskattempt": ["attempt_new", "attempt_released", "attempt_gone"],
    "scheduling_reservation": ["reserved"],
}

NO_TRIGGERS = "\n".join(
    f"DROP TRIGGER scheduling_{name} ON {table};" for table, names in TABLES.items() for name in names
)

NO_FUNCTIONS = "\n".join(
    f"DROP FUNCTION scheduling_log_{name}();"
    for name in ("row", "statement", "device", "reservation", "placed", "released")
)


class Migration(migrations.Migration):

    dependencies = [
        ("scheduling", "0001_initial"),
        ("cluster", "0002_cells"),
        ("tenancy", "0002_cells"),
        ("jobs", "0002_cells"),
    ]

    operations = [
        migrations.AlterField(
            "change",
            "kind",
            models.CharField(
                choices=[
                    ("node", "Node"),
                    ("gang", "Gang"),
                    ("inventory", "Inventory"),
                    ("all", "All"),
                    ("pruned", "Pruned"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddIndex(
            "change",
            models.Index(fields=["txid"], condition=models.Q(kind="pruned"), name="change_pruned"),
        ),
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
