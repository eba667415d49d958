from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.templates import api

urlpatterns: list[URLPattern] = [
    path("templates", api.TemplatesView.as_view()),
    path("templates/<str:name>", api.TemplateView.as_view()),
    path("templates/<str:name>/star", api.StarView.as_view()),
]
