from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0039_fewer_indexes")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="request_id",
            field=models.CharField(db_default="", default="", max_length=64),
        ),
    ]
