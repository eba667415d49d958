"""Drop the indexes of foreign keys that are the beginning of another index: each costs at every
insert, and at every update that cannot stay on its page.

Django would drop and check each foreign key anew, which locks the table for as long as that takes.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# As Django named them, and the columns that they had.
DROPPED = (
    ("jobs_job_owner_id_4c884775", "jobs_job", "owner_id"),
    ("jobs_job_vc_id_d82001f2", "jobs_job", "vc_id"),
    ("jobs_jobattempt_job_id_05797094", "jobs_jobattempt", "job_id"),
    ("jobs_task_job_id_6fefee23", "jobs_task", "job_id"),
    ("jobs_taskattempt_job_id_04695bd7", "jobs_taskattempt", "job_id"),
    ("jobs_taskattempt_task_id_671400e5", "jobs_taskattempt", "task_id"),
    ("jobs_taskrole_job_id_8c1a9071", "jobs_taskrole", "job_id"),
)


class Migration(migrations.Migration):
    atomic = False  # an index is dropped beside writers

    dependencies = [
        ("jobs", "0038_archived_job"),
        ("tenancy", "0009_default_image"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    f"DROP INDEX CONCURRENTLY IF EXISTS {name}",
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table} ({column})",
                )
                for name, table, column in DROPPED
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="job",
                    name="owner",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                migrations.AlterField(
                    model_name="job",
                    name="vc",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to="tenancy.virtualcluster",
                    ),
                ),
                migrations.AlterField(
                    model_name="jobattempt",
                    name="job",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="job_attempts",
                        to="jobs.job",
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="job",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tasks",
                        to="jobs.job",
                    ),
                ),
                migrations.AlterField(
                    model_name="taskattempt",
                    name="job",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="jobs.job",
                    ),
                ),
                migrations.AlterField(
                    model_name="taskattempt",
                    name="task",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="jobs.task",
                    ),
                ),
                migrations.AlterField(
                    model_name="taskrole",
                    name="job",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="roles",
                        to="jobs.job",
                    ),
                ),
            ],
        ),
    ]
