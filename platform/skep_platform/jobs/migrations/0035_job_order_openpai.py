"""The orders and the filter of OpenPAI's list of jobs that had no index."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("jobs", "0034_restart_times"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(fields=["finished_at", "id"], name="job_order_finished"),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                models.F("retries_used") + models.F("free_retries") + models.F("preemptions"),
                models.F("id"),
                name="job_order_retries",
            ),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(fields=["priority_class", "-created_at"], name="job_by_class"),
        ),
    ]
