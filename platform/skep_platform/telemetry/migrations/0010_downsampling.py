"""The oldest rollups of each resolution, which become coarser."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("telemetry", "0009_measured_samples"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="gpurollup",
            index=models.Index(fields=["seconds", "at"], name="gpu_rollup_oldest"),
        ),
        AddIndexConcurrently(
            model_name="taskrollup",
            index=models.Index(fields=["seconds", "at"], name="task_rollup_oldest"),
        ),
    ]
