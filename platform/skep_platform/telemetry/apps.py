from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    name = "skep_platform.telemetry"
    label = "telemetry"
    default_auto_field = "django.db.models.BigAutoField"
