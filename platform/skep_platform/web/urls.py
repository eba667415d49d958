from __future__ import annotations

from django.urls import URLPattern, re_path

from skep_platform.web.views import index

urlpatterns: list[URLPattern] = [
    re_path(r"^(?!api(?:/|$)|static/|ws/|healthz$|readyz$)", index, name="web"),
]
