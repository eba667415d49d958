from __future__ import annotations

from django.apps import AppConfig


class SimulationsConfig(AppConfig):
    name = "skep_platform.simulations"
    label = "simulations"
