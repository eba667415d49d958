"""Names of templates are unique among those of one owner, no longer among all."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("templates", "0001_initial")]

    operations = [
        migrations.AlterField(
            model_name="template",
            name="name",
            field=models.CharField(
                max_length=63,
                validators=[
                    django.core.validators.RegexValidator(
                        "\\A[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}\\Z", "Use letters, digits, '-' and '_'."
                    )
                ],
            ),
        ),
        migrations.AddConstraint(
            model_name="template",
            constraint=models.UniqueConstraint(
                fields=("owner", "name"), name="template_name_of_owner"
            ),
        ),
        migrations.AddConstraint(
            model_name="template",
            constraint=models.UniqueConstraint(
                condition=models.Q(("shipped", True)),
                fields=("name",),
                name="template_name_shipped",
            ),
        ),
    ]
