from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Rename the field in Python; the column keeps its name, so that servers of the release before
    go on while a new one starts."""

    dependencies = [("jobs", "0015_predicted_duration")]

    operations = [
        migrations.AlterField(
            "taskattempt",
            "told_run_at",
            models.DateTimeField(null=True, db_column="told_run_at"),
        ),
        migrations.RenameField("taskattempt", "told_run_at", "sent_run_at"),
    ]
