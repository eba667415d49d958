"""The cells app: what virtual clusters own, as cells, for people and for admins."""

from __future__ import annotations

from django.apps import AppConfig


class CellsConfig(AppConfig):
    name = "skep_platform.cells"
    label = "cells"

    def ready(self) -> None:
        from skep_platform.cells import services
        from skep_platform.core import ports

        ports.check_raised_claims.bind(services.check_raised)
