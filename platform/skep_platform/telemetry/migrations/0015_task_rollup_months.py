"""Rollups of tasks by the minute are partitioned as those of GPUs are in the migration before."""

from importlib import import_module

import django.db.models.deletion
from django.db import migrations, models

before = import_module("skep_platform.telemetry.migrations.0014_rollup_months")
TASKS = before.PARTITION.format(
    table="telemetry_taskrollup",
    referred="jobs_taskattempt",
    name="task_rollup",
    unique="task_rollup_once",
    columns="UNIQUE (attempt_id, at)",
    drop="telemetry_taskrollup_attempt_id_bc11dbe9",
    rename="",
    more=before.ATTEMPT.format(table="telemetry_taskrollup", hash="bc11dbe9"),
)


class Migration(migrations.Migration):
    dependencies = [
        ("telemetry", "0014_rollup_months"),
    ]

    operations = [
        migrations.RunSQL(
            TASKS,
            state_operations=[
                migrations.AlterField(
                    "taskrollup",
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.taskattempt",
                    ),
                ),
            ],
        ),
    ]
