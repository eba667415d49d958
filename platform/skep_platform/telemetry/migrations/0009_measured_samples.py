import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("telemetry", "0008_prediction_day"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpurollup",
            name="power_samples",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="taskrollup",
            name="byte_samples",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.PositiveIntegerField(), null=True, size=None
            ),
        ),
    ]
