import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("tenancy", "0009_default_image"),
        ("usage", "0006_usage_merged"),
    ]

    operations = [
        migrations.CreateModel(
            name="FairnessMeasure",
            fields=[
                (
                    "vc",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenancy.virtualcluster",
                    ),
                ),
                ("at", models.DateTimeField()),
                ("worst_rho", models.FloatField()),
                ("jain_index", models.FloatField()),
            ],
        ),
    ]
