import django.db.models.deletion
import skep_platform.core.models
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("cluster", "0017_s3_mounts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="checks_needed",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="node",
            name="maintenance_from",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="node",
            name="maintenance_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name="MaintenanceWindow",
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
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("reason", models.CharField(blank=True, max_length=300)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("PLANNED", "Planned"),
                            ("ACTIVE", "Active"),
                            ("ENDED", "Ended"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        default="PLANNED",
                        max_length=16,
                    ),
                ),
                ("was_cordoned", models.BooleanField(default=False)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="maintenance_windows",
                        to="cluster.node",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["PLANNED", "ACTIVE"])),
                        fields=["node", "starts_at"],
                        name="maintenance_open",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="NodeCheck",
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
                ("cause", models.CharField(max_length=16)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("WAITING", "Waiting"),
                            ("PASSED", "Passed"),
                            ("FAILED", "Failed"),
                        ],
                        default="WAITING",
                        max_length=16,
                    ),
                ),
                ("due_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                ("results", models.JSONField(default=list)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="checks",
                        to="cluster.node",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["node", "-id"], name="check_by_node")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "WAITING")),
                        fields=("node",),
                        name="one_node_check_waits",
                    )
                ],
            },
        ),
    ]
