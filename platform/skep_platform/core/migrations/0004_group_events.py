
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("core", "0003_folded_events"),
    ]

    operations = [
        migrations.AlterField(
            model_name="event",
            name="subject_type",
            field=models.CharField(
                choices=[
                    ("job", "Job"),
                    ("node", "Node"),
                    ("vc", "Vc"),
                    ("user", "User"),
                    ("group", "Group"),
                    ("image", "Image"),
                    ("cells", "Cells"),
                ],
                max_length=16,
            ),
        ),
    ]
