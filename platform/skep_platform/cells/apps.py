"""The cells app: what virtual clusters own, as cells, for people and for admins."""

from __future__ import annotations

from django.apps import AppConfig


class CellsConfig(AppConfig):
    name = "skep_platform.cells"
    label = "cells"
