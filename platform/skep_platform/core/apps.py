from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "skep_platform.core"
    label = "core"
    default_auto_field = "django.db.models.BigAutoField"
