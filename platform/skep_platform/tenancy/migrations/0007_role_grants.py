
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("accounts", "0003_groups"),
        ("tenancy", "0006_policy"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="membership",
            name="role",
            field=models.CharField(
                choices=[
                    ("viewer", "Viewer"),
                    ("member", "Member"),
                    ("admin", "Admin"),
                ],
                default="member",
                max_length=16,
            ),
        ),
        migrations.CreateModel(
            name="RoleGrant",
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
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("member", "Member"),
                            ("admin", "Admin"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to="accounts.group",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to="tenancy.virtualcluster",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("user", None), ("group", None), _connector="XOR"
                        ),
                        name="role_grant_to_one",
                    ),
                    models.UniqueConstraint(
                        fields=("vc", "user"), name="role_grant_user_once"
                    ),
                    models.UniqueConstraint(
                        fields=("vc", "group"), name="role_grant_group_once"
                    ),
                ],
            },
        ),
        # Managers are called admins from now on, and every membership so far was given to its user.
        migrations.RunSQL(
            "UPDATE tenancy_membership SET role = 'admin' WHERE role = 'manager'",
            "UPDATE tenancy_membership SET role = 'manager' WHERE role = 'admin'",
        ),
        migrations.RunSQL(
            "INSERT INTO tenancy_rolegrant (vc_id, user_id, role) "
            "SELECT vc_id, user_id, role FROM tenancy_membership",
            migrations.RunSQL.noop,
        ),
    ]
