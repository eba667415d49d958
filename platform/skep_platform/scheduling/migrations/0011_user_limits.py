"""A change of what each user may hold in a virtual cluster is a change that the scheduler sees."""

from __future__ import annotations

from django.db import migrations

NAMES = "('gpus_per_user', 'running_jobs_per_user')"
TRIGGERS = f"""
CREATE TRIGGER scheduling_user_limit_new AFTER INSERT ON tenancy_vclimit
    FOR EACH ROW WHEN (NEW.name IN {NAMES})
    EXECUTE FUNCTION scheduling_log_statement('inventory');
CREATE TRIGGER scheduling_user_limit_changed AFTER UPDATE ON tenancy_vclimit
    FOR EACH ROW WHEN (NEW.name IN {NAMES} AND OLD.value IS DISTINCT FROM NEW.value)
    EXECUTE FUNCTION scheduling_log_statement('inventory');
CREATE TRIGGER scheduling_user_limit_gone AFTER DELETE ON tenancy_vclimit
    FOR EACH ROW WHEN (OLD.name IN {NAMES})
    EXECUTE FUNCTION scheduling_log_statement('inventory');
"""
NO_TRIGGERS = """
DROP TRIGGER scheduling_user_limit_new ON tenancy_vclimit;
DROP TRIGGER scheduling_user_limit_changed ON tenancy_vclimit;
DROP TRIGGER scheduling_user_limit_gone ON tenancy_vclimit;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0010_budget_in_log"), ("tenancy", "0003_limits")]

    operations = [migrations.RunSQL(TRIGGERS, NO_TRIGGERS)]
