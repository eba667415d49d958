from django.apps import AppConfig


class TenancyConfig(AppConfig):
    name = "skep_platform.tenancy"
    label = "tenancy"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.core import ports
        from skep_platform.tenancy import memberships, queries

        ports.groups_changed.bind(memberships.refresh_users)
        ports.managed_vcs.bind(queries.managed_by)
        ports.vc_ids.bind(queries.ids_of)
