from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0014_verdict")]

    operations = [
        migrations.AddField("job", "predicted_s", models.PositiveIntegerField(null=True)),
    ]
