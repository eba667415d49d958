import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("storage", "0005_s3"),
        ("tenancy", "0009_default_image"),
    ]

    operations = [
        migrations.AddField(
            model_name="storage",
            name="managed_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="managed_storages",
                to="tenancy.virtualcluster",
            ),
        ),
    ]
