from __future__ import annotations

from django.apps import AppConfig


class StorageConfig(AppConfig):
    name = "skep_platform.storage"
    default_auto_field = "django.db.models.BigAutoField"
