"""One name for a GPU model: "A100-SXM4-80GB", and not also "NVIDIA A100-SXM4-80GB"."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [("tenancy", "0003_limits")]

    operations = [
        migrations.RunSQL(
            """UPDATE tenancy_quota q SET gpu_model = regexp_replace(regexp_replace(regexp_replace(gpu_model, '[^A-Za-z0-9_]+', '-', 'g'), '^-+|-+$', '', 'g'), '^NVIDIA-(?=.)', '') WHERE gpu_model ~ '(^NVIDIA| )' AND NOT EXISTS (SELECT FROM tenancy_quota o WHERE o.vc_id = q.vc_id AND o.gpu_model = regexp_replace(regexp_replace(regexp_replace(q.gpu_model, '[^A-Za-z0-9_]+', '-', 'g'), '^-+|-+$', '', 'g'), '^NVIDIA-(?=.)', ''))""",
            migrations.RunSQL.noop,
        ),
    ]
