from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.files import api

urlpatterns: list[URLPattern] = [
    path("files", api.ArchivesView.as_view()),
    path("files/<str:sha256>", api.ArchiveView.as_view()),
]
