from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Outside of a transaction: jobs are written while the index is made."""

    atomic = False
    dependencies = [("jobs", "0032_prediction")]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("finished_at__isnull", False),
                    ("started_at__isnull", False),
                    ("state", "SUCCEEDED"),
                ),
                fields=["owner", "command_key", "-created_at"],
                name="job_by_command",
            ),
        ),
    ]
