from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("core", "0005_event_notify"),
    ]

    operations = [
        migrations.CreateModel(
            name="Leadership",
            fields=[
                (
                    "role",
                    models.CharField(max_length=32, primary_key=True, serialize=False),
                ),
                ("owner", models.CharField(max_length=128)),
                ("term", models.PositiveBigIntegerField(default=1)),
                ("expires_at", models.DateTimeField()),
            ],
        ),
    ]
