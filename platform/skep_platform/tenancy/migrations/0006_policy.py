from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0005_visibility")]

    operations = [
        migrations.AddField(
            model_name="virtualcluster",
            name="policy",
            field=models.JSONField(blank=True, null=True),
        ),
    ]
