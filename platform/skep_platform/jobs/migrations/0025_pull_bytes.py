from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0024_job_notified_events"),
    ]

    operations = [
        migrations.AddField(
            model_name="taskattempt",
            name="pull_bytes",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="taskattempt",
            name="pull_total_bytes",
            field=models.PositiveBigIntegerField(null=True),
        ),
    ]
