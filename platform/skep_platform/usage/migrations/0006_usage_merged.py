from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Outside of a transaction: days are counted while the index is made."""

    atomic = False
    dependencies = [("usage", "0005_sum_old_days")]

    operations = [
        AddIndexConcurrently(
            model_name="usageday",
            index=models.Index(
                condition=models.Q(("job", None)), fields=["day"], name="usage_merged"
            ),
        ),
    ]
