from django.apps import AppConfig


class CompatConfig(AppConfig):
    name = "skep_platform.compat"
    label = "compat"
    default_auto_field = "django.db.models.BigAutoField"
