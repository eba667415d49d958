from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class TemplatesConfig(AppConfig):
    name = "skep_platform.templates"
    label = "templates"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.templates import services  # noqa: F401 registers itself

        post_migrate.connect(_ship, sender=self)


def _ship(**_: Any) -> None:
    from skep_platform.templates import shipping

    shipping.ship()
