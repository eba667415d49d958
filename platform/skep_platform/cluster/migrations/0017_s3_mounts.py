from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("cluster", "0016_inner_mounts"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="s3_mounts",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
