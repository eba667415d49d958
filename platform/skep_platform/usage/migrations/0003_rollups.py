import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0028_datasets"),
        ("tenancy", "0009_default_image"),
        ("usage", "0002_budget"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="JobUsage",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="usage_sums",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("gpu_model", models.CharField(max_length=100, null=True)),
                ("month", models.DateField()),
                ("first_day", models.DateField()),
                ("last_day", models.DateField()),
                ("allocated_us", models.BigIntegerField()),
                ("guaranteed_us", models.BigIntegerField()),
                ("used_us", models.BigIntegerField()),
                ("known_us", models.BigIntegerField()),
                (
                    "idle_us",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.expressions.CombinedExpression(
                            models.F("known_us"), "-", models.F("used_us")
                        ),
                        output_field=models.BigIntegerField(),
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="UsageRollup",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("monthly", models.BooleanField()),
                ("day", models.DateField()),
                ("gpu_model", models.CharField(max_length=100)),
                ("guaranteed", models.BooleanField()),
                ("allocated_us", models.BigIntegerField()),
                ("used_us", models.BigIntegerField()),
                ("known_us", models.BigIntegerField()),
            ],
        ),
        migrations.AddField(
            model_name="jobusage",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="jobusage",
            name="vc",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="tenancy.virtualcluster",
            ),
        ),
        migrations.AddField(
            model_name="usagerollup",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="usagerollup",
            name="vc",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="tenancy.virtualcluster",
            ),
        ),
        migrations.AddIndex(
            model_name="jobusage",
            index=models.Index(
                fields=["month", "allocated_us", "job"], name="job_usage_by_allocated"
            ),
        ),
        migrations.AddIndex(
            model_name="jobusage",
            index=models.Index(
                fields=["month", "used_us", "job"], name="job_usage_by_used"
            ),
        ),
        migrations.AddIndex(
            model_name="jobusage",
            index=models.Index(
                fields=["month", "idle_us", "job"], name="job_usage_by_idle"
            ),
        ),
        migrations.AddIndex(
            model_name="jobusage",
            index=models.Index(fields=["month", "job"], name="job_usage_by_job"),
        ),
        migrations.AddIndex(
            model_name="jobusage",
            index=models.Index(fields=["vc", "month"], name="job_usage_by_vc"),
        ),
        migrations.AddIndex(
            model_name="jobusage",
            index=models.Index(fields=["user", "month"], name="job_usage_by_user"),
        ),
        migrations.AddIndex(
            model_name="jobusage",
            index=models.Index(
                condition=models.Q(("gpu_model", None)),
                fields=["last_day"],
                name="job_usage_of_models",
            ),
        ),
        migrations.AddIndex(
            model_name="jobusage",
            index=django.contrib.postgres.indexes.GistIndex(
                models.Func(
                    models.F("first_day"),
                    models.F("last_day"),
                    models.Value("[]"),
                    function="daterange",
                ),
                name="job_usage_by_days",
            ),
        ),
        migrations.AddIndex(
            model_name="usagerollup",
            index=models.Index(fields=["user", "day"], name="usage_rollup_by_user"),
        ),
        migrations.AddIndex(
            model_name="usagerollup",
            index=models.Index(fields=["vc", "day"], name="usage_rollup_by_vc"),
        ),
        migrations.AddIndex(
            model_name="usagerollup",
            index=models.Index(
                condition=models.Q(("user", None)),
                fields=["monthly", "day"],
                name="usage_rollup_of_vcs",
            ),
        ),
        migrations.AddConstraint(
            model_name="usagerollup",
            constraint=models.UniqueConstraint(
                fields=("monthly", "day", "vc", "user", "gpu_model", "guaranteed"),
                name="usage_rollup_once",
                nulls_distinct=False,
            ),
        ),
    ]
