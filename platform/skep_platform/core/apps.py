from typing import Any

from celery.signals import setup_logging
from django.apps import AppConfig

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
