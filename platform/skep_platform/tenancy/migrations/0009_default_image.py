"""The image that jobs of a virtual cluster get where none is named."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0008_service_accounts")]

    operations = [
        migrations.AddField(
            "virtualcluster",
            "default_image",
            models.CharField(max_length=512, blank=True, default="", db_default=""),
        )
    ]
