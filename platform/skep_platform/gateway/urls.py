from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.gateway import files_api, scratch_api

urlpatterns: list[URLPattern] = [
    path("agent/files/<str:sha256>", files_api.AgentFilesView.as_view()),
    path("agent/scratch", scratch_api.AgentScratchView.as_view()),
]
