"""An index for the search in any case, which Django compares in upper case."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX audit_target_name;"
            "CREATE INDEX audit_target_name ON audit_entry"
            " USING gin (upper(target_name) gin_trgm_ops);",
            "DROP INDEX audit_target_name;"
            "CREATE INDEX audit_target_name ON audit_entry USING gin (target_name gin_trgm_ops);",
        ),
    ]
