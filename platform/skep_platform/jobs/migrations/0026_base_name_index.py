from django.db import migrations


class Migration(migrations.Migration):
    """An index of the jobs that succeeded by their name without the number behind it, for the
    prediction of durations (submission/prediction.py). Only there is the expression known, so the
    model does not have it."""

    dependencies = [("jobs", "0025_pull_bytes")]

    operations = [
        migrations.RunSQL(
            r"""
            CREATE INDEX job_by_base_name ON jobs_job (
                owner_id,
                (coalesce(
                    nullif(regexp_replace(name, '[-_.]([0-9]{1,9}|[0-9a-f]{8})$', ''), ''), name
                )),
                created_at DESC
            ) WHERE state = 'SUCCEEDED' AND started_at IS NOT NULL AND finished_at IS NOT NULL
            """,
            "DROP INDEX job_by_base_name",
        ),
    ]
