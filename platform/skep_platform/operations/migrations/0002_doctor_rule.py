from django.db import migrations, models

KINDS = [
    ("idle_gpus", "Idle Gpus"),
    ("bad_node", "Bad Node"),
    ("node_away", "Node Away"),
    ("stuck_job", "Stuck Job"),
    ("full_disk", "Full Disk"),
    ("certificate", "Certificate"),
    ("doctor", "Doctor"),
]


def add_rule(apps, _):
    """Watch what the doctor finds, warnings too, such as a backup that is missing."""
    rules = apps.get_model("operations", "AlertRule").objects
    rules.get_or_create(
        name="doctor", defaults={"kind": "doctor", "threshold": 2.0, "for_minutes": 60}
    )


class Migration(migrations.Migration):

    dependencies = [("operations", "0001_operations")]

    operations = [
        migrations.AlterField("alertrule", "kind", models.CharField(choices=KINDS, max_length=16)),
        migrations.RunPython(add_rule, migrations.RunPython.noop),
    ]
