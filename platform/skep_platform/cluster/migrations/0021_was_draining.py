from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("cluster", "0020_node_warnings"),
    ]

    operations = [
        migrations.AddField(
            model_name="maintenancewindow",
            name="was_draining",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
