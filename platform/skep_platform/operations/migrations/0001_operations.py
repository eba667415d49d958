import django.db.models.deletion
import skep_platform.core.models
from django.conf import settings
from django.db import migrations, models


# Rules that notify administrators and do nothing else.
DEFAULT_RULES = [
    ("bad GPUs", "bad_node", 1.0, 5),
    ("nodes away", "node_away", 10.0, 0),
    ("stuck jobs", "stuck_job", 60.0, 0),
    ("full disks", "full_disk", 95.0, 5),
    ("certificates", "certificate", 14.0, 0),
]


def add_default_rules(apps, _):
    rules = apps.get_model("operations", "AlertRule").objects
    for name, kind, threshold, minutes in DEFAULT_RULES:
        rules.create(name=name, kind=kind, threshold=threshold, for_minutes=minutes)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=skep_platform.core.models.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("name", models.CharField(max_length=63, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("idle_gpus", "Idle Gpus"),
                            ("bad_node", "Bad Node"),
                            ("node_away", "Node Away"),
                            ("stuck_job", "Stuck Job"),
                            ("full_disk", "Full Disk"),
                            ("certificate", "Certificate"),
                        ],
                        max_length=16,
                    ),
                ),
                ("threshold", models.FloatField()),
                ("for_minutes", models.PositiveIntegerField(default=0)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("notify", "Notify"),
                            ("cordon", "Cordon"),
                            ("stop", "Stop"),
                        ],
                        default="notify",
                        max_length=8,
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
                (
                    "recipients",
                    models.ManyToManyField(
                        blank=True, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Backup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("at", models.DateTimeField()),
                ("place", models.CharField(max_length=300)),
                ("version", models.CharField(blank=True, max_length=64)),
                ("bytes", models.PositiveBigIntegerField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["-at"], name="backup_by_age")],
            },
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=skep_platform.core.models.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("subject", models.CharField(max_length=300)),
                ("message", models.CharField(max_length=500)),
                ("details", models.JSONField(default=dict)),
                ("fired_at", models.DateTimeField(null=True)),
                ("acted", models.CharField(blank=True, max_length=300)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "rule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alerts",
                        to="operations.alertrule",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["ended_at"], name="alert_by_end")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)),
                        fields=("rule", "subject"),
                        name="alert_once",
                    )
                ],
            },
        ),
        migrations.RunPython(add_default_rules, migrations.RunPython.noop),
    ]
