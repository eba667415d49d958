from __future__ import annotations

from django.apps import AppConfig


class FilesConfig(AppConfig):
    name = "skep_platform.files"
    default_auto_field = "django.db.models.AutoField"  # as its table has it
