"""A job's verdict in a column of its own: the code of its exit reason comes from nodes."""

from django.db import migrations, models

# Of jobs whose end is decided and not carried out yet. The reason of a success counts the tasks
# that succeeded; no report of a node can have that.
BACKFILL = """
UPDATE jobs_job
   SET verdict = CASE WHEN stop_requested_at IS NOT NULL THEN 'STOPPED'
                      WHEN exit_reason->'details' ? 'succeeded' THEN 'SUCCEEDED'
                      ELSE 'FAILED' END
 WHERE state IN ('WAITING', 'RUNNING', 'STOPPING') AND exit_reason IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0013_dependencies")]

    operations = [
        migrations.AddField(
            "job",
            "verdict",
            models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
        migrations.RunSQL(BACKFILL, migrations.RunSQL.noop),
    ]
