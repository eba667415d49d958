"""The service that jobs attained, summed when GPUs are released: reading it costs one row per job.

A trigger adds it up, as the change log's do, so that no way of releasing an attempt can leave it
out.
"""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

GPU_S = """
    jsonb_array_length(a.gpu_uuids)
        * greatest(coalesce(extract(epoch FROM a.released_at - a.started_at), 0), 0)
"""

TRIGGER = f"""
CREATE FUNCTION scheduling_add_service() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scheduling_attainedservice AS known (job_id, gpu_s, released_at)
    SELECT a.job_id, sum({GPU_S})::float8, max(a.released_at)
      FROM before JOIN after AS a USING (id)
     WHERE before.released_at IS NULL AND a.released_at IS NOT NULL
     GROUP BY a.job_id ORDER BY a.job_id
        ON CONFLICT (job_id) DO UPDATE
       SET gpu_s = known.gpu_s + excluded.gpu_s,
           released_at = greatest(known.released_at, excluded.released_at);
    -- Only a repair by hand changes an attempt that was released before: sum all of its job anew.
    INSERT INTO scheduling_attainedservice AS known (job_id, gpu_s, released_at)
    SELECT mended.job_id, coalesce(sum({GPU_S}), 0)::float8, max(a.released_at)
      FROM (SELECT DISTINCT before.job_id
              FROM before JOIN after USING (id)
             WHERE before.released_at IS NOT NULL
               AND (before.started_at, before.released_at, before.gpu_uuids)
                   IS DISTINCT FROM (after.started_at, after.released_at, after.gpu_uuids)
           ) AS mended
      LEFT JOIN jobs_taskattempt a ON a.job_id = mended.job_id AND a.released_at IS NOT NULL
     GROUP BY mended.job_id ORDER BY mended.job_id
        ON CONFLICT (job_id) DO UPDATE
       SET gpu_s = excluded.gpu_s, released_at = excluded.released_at;
    RETURN NULL;
END $$;
CREATE TRIGGER scheduling_service AFTER UPDATE ON jobs_taskattempt
    REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_add_service();
"""

NO_TRIGGER = """
DROP TRIGGER scheduling_service ON jobs_taskattempt;
DROP FUNCTION scheduling_add_service();
"""

BACKFILL = f"""
INSERT INTO scheduling_attainedservice (job_id, gpu_s, released_at)
SELECT a.job_id, sum({GPU_S})::float8, max(a.released_at)
  FROM jobs_taskattempt a WHERE a.released_at IS NOT NULL GROUP BY a.job_id;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0008_draining_in_log"), ("jobs", "0016_sent_run_at")]

    operations = [
        migrations.CreateModel(
            name="AttainedService",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("gpu_s", models.FloatField()),
                ("released_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.RunSQL(BACKFILL, migrations.RunSQL.noop),
        migrations.RunSQL(TRIGGER, NO_TRIGGER),
    ]
