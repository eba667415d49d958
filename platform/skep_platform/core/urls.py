from __future__ import annotations

from django.urls import URLPattern, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from skep_platform.core.schema import InfoView, OpenApiView

urlpatterns: list[URLPattern] = [
    path("info", InfoView.as_view(), name="info"),
    path("openapi", OpenApiView.as_view(), name="openapi"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="openapi"), name="docs"),
]
