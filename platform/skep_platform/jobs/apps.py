from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "skep_platform.jobs"
    label = "jobs"
    default_auto_field = "django.db.models.BigAutoField"
