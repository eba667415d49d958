"""Within what the number of tasks of an elastic role is chosen at each start."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0036_trace_parent"),
    ]

    operations = [
        migrations.AddField("taskrole", name, models.PositiveIntegerField(null=True))
        for name in ("elastic_min", "elastic_max", "asked_instances")
    ]
