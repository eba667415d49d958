from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0031_job_with_metrics")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="command_key",
            field=models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
        migrations.AddField(
            model_name="job",
            name="prediction",
            field=models.JSONField(null=True),
        ),
    ]
