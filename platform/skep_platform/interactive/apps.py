from __future__ import annotations

from django.apps import AppConfig


class InteractiveConfig(AppConfig):
    name = "skep_platform.interactive"
    label = "interactive"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.core import ports
        from skep_platform.interactive import services

        ports.store_apps.bind(services.store_declared)
