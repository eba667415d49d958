"""An index for what was refused in one virtual cluster: its admins would walk past the refused
entries of all others."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_search_by_name")]

    operations = [
        migrations.RunSQL(
            "CREATE INDEX audit_refused_vc ON audit_entry (vc_id, id) WHERE outcome = 'refused';",
            "DROP INDEX audit_refused_vc;",
        ),
    ]
