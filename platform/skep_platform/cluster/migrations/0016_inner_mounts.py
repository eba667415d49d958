from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("cluster", "0015_announcementdismissal"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="inner_mounts",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
