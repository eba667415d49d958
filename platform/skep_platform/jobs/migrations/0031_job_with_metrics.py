from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Outside of a transaction: jobs are written while the index is made."""

    atomic = False
    dependencies = [("jobs", "0030_image_saves")]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=models.Q(("attempt__gt", 0), ("metrics_rank__isnull", False)),
                fields=["id"],
                name="job_with_metrics",
            ),
        ),
    ]
