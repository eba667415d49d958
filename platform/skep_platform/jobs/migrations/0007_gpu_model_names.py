"""One name for a GPU model: "A100-SXM4-80GB", and not also "NVIDIA A100-SXM4-80GB"."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [("jobs", "0006_held_gangs")]

    operations = [
        migrations.RunSQL(
            """UPDATE jobs_taskrole SET gpu_model = regexp_replace(regexp_replace(regexp_replace(gpu_model, '[^A-Za-z0-9_]+', '-', 'g'), '^-+|-+$', '', 'g'), '^NVIDIA-(?=.)', '') WHERE gpu_model ~ '(^NVIDIA| )'""",
            migrations.RunSQL.noop,
        ),
    ]
