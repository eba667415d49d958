from django.apps import AppConfig


class TenancyConfig(AppConfig):
    name = "skep_platform.tenancy"
    label = "tenancy"
    default_auto_field = "django.db.models.BigAutoField"
