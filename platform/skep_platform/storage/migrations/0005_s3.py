from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("storage", "0004_datasets"),
    ]

    operations = [
        migrations.AddField(
            model_name="storage",
            name="sealed",
            field=models.BinaryField(null=True),
        ),
        migrations.AlterField(
            model_name="storage",
            name="type",
            field=models.CharField(
                choices=[("nfs", "Nfs"), ("host_path", "Host Path"), ("s3", "S3")], max_length=16
            ),
        ),
    ]
