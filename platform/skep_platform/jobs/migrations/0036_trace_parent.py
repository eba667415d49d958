"""The span under which a job's wait and start are recorded."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0035_job_order_openpai"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="trace_parent",
            field=models.CharField(blank=True, db_default="", default="", max_length=55),
        ),
    ]
