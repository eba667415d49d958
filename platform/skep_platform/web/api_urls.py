from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.web.summary import ClusterView

urlpatterns: list[URLPattern] = [
    path("cluster", ClusterView.as_view()),
]
