"""Let the update that places a job stay on its page (a HOT update): it writes to no index then.

No index may have a column that it changes: `placed_at`, `attempt`, `updated_at`. And a page needs
space for the new version of a row: so much of it is left free from now on.
"""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models

FILLED = {"jobs_job": 60, "jobs_taskattempt": 70}  # percent of a page by inserts


class Migration(migrations.Migration):
    atomic = False  # jobs are written while an index is made

    dependencies = [("jobs", "0040_request_id")]

    operations = [
        AddIndexConcurrently(
            "job",
            models.Index(
                condition=models.Q(("state", "WAITING")),
                fields=["vc", "-priority", "created_at"],
                name="job_in_queue",
            ),
        ),
        AddIndexConcurrently(
            "job",
            models.Index(
                condition=models.Q(("metrics_rank__isnull", False)),
                fields=["state"],
                name="job_metrics_due",
            ),
        ),
        RemoveIndexConcurrently("job", "job_queue"),
        RemoveIndexConcurrently("job", "job_active"),
        RemoveIndexConcurrently("job", "job_held"),
        RemoveIndexConcurrently("job", "job_with_metrics"),
        *(
            migrations.RunSQL(
                f"ALTER TABLE {table} SET (fillfactor = {percent})",
                f"ALTER TABLE {table} RESET (fillfactor)",
            )
            for table, percent in FILLED.items()
        ),
    ]
