import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0006_policy"), ("usage", "0001_usage")]

    operations = [
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "vc",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="budget",
                        serialize=False,
                        to="tenancy.virtualcluster",
                    ),
                ),
                ("gpu_hours", models.PositiveIntegerField()),
                ("month", models.DateField()),
                ("used_us", models.BigIntegerField(default=0)),
                ("warned", models.BooleanField(default=False)),
                ("used_up", models.BooleanField(default=False)),
            ],
        ),
    ]
