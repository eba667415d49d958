from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "skep_platform.gateway"
    label = "gateway"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.gateway import callers  # noqa: F401 registers itself
