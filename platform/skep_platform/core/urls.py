from __future__ import annotations

from django.urls import URLPattern, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from skep_platform.core.info import InfoView

urlpatterns: list[URLPattern] = [
    path("info", InfoView.as_view(), name="info"),
    path("openapi", SpectacularAPIView.as_view(), name="openapi"),
    path("docs", SpectacularSwaggerView.as_view(url_name="openapi"), name="docs"),
]
