from typing import Any

from celery.signals import setup_logging
from django.apps import AppConfig

# Loaded with Django, so that every process that sends a task uses this configuration.
from skep_platform import celery  # noqa: F401
from skep_platform.core import logs


def _instead_of_celerys_own(**_: Any) -> None:
    logs.configure()


class CoreConfig(AppConfig):
    name = "skep_platform.core"
    label = "core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        logs.configure()
        setup_logging.connect(_instead_of_celerys_own)
