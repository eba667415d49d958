from typing import Any

from celery.signals import setup_logging
from django.apps import AppConfig

# Loaded with Django, so that every process that sends a task uses this configuration.
from skep_platform import celery  # noqa: F401
from skep_platform.core import logs


def _instead_of_celerys_own(loglevel: int | None = None, **_: Any) -> None:
    """Configure logging where Celery would do so; its own lines are those from `loglevel` on."""
    logs.configure(celery_level=loglevel)


class CoreConfig(AppConfig):
    name = "skep_platform.core"
    label = "core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        logs.configure()
        setup_logging.connect(_instead_of_celerys_own)
