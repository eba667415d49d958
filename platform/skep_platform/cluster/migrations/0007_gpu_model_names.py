"""One name for a GPU model: "A100-SXM4-80GB", and not also "NVIDIA A100-SXM4-80GB"."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [("cluster", "0006_faults")]

    operations = [
        migrations.RunSQL(
            """UPDATE cluster_device SET model = regexp_replace(regexp_replace(regexp_replace(model, '[^A-Za-z0-9_]+', '-', 'g'), '^-+|-+$', '', 'g'), '^NVIDIA-(?=.)', '') WHERE model ~ '(^NVIDIA| )'""",
            migrations.RunSQL.noop,
        ),
    ]
