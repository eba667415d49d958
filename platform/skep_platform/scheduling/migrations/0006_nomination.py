"""Names the places of a preemptor as Kubernetes does. The table keeps its name: the change log's
triggers and queries know it by that."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0005_policy_in_log"),
        ("tenancy", "0006_policy"),
        ("jobs", "0014_verdict"),
    ]

    operations = [
        migrations.AlterModelTable("reservation", "scheduling_reservation"),
        migrations.RenameModel("Reservation", "Nomination"),
        migrations.AlterField(
            "nomination",
            "job",
            models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="nomination",
                to="jobs.job",
            ),
        ),
        migrations.CreateModel(
            name="ReservedStart",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="reserved_start",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("start", models.FloatField()),
                ("places", models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name="PreemptionCooldown",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("times", models.PositiveIntegerField()),
                ("cancelled_at", models.FloatField()),
            ],
        ),
        migrations.CreateModel(
            name="VcTimeline",
            fields=[
                (
                    "vc",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="timeline",
                        serialize=False,
                        to="tenancy.virtualcluster",
                    ),
                ),
                ("at", models.DateTimeField()),
                ("entries", models.JSONField()),
            ],
        ),
    ]
