from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.web.health import HealthView
from skep_platform.web.summary import ClusterView

urlpatterns: list[URLPattern] = [
    path("cluster", ClusterView.as_view()),
    path("health", HealthView.as_view()),
]
