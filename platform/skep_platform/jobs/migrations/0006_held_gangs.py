from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0005_diagnosis_claim"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["placed_at"],
                condition=models.Q(
                    ("begun_at__isnull", True),
                    ("incremental", False),
                    ("placed_at__isnull", False),
                    ("state__in", ["WAITING", "RUNNING"]),
                    ("tasks_total__gt", 1),
                ),
                name="job_held",
            ),
        ),
    ]
