from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0011_node_disks'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='components',
            field=models.JSONField(default=dict),
        ),
    ]
