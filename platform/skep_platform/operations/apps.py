from __future__ import annotations

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "skep_platform.operations"
    label = "operations"
    default_auto_field = "django.db.models.BigAutoField"
