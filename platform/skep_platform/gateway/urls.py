from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.gateway import agent_api

urlpatterns: list[URLPattern] = [
    path("agent/files/<str:sha256>", agent_api.AgentFilesView.as_view()),
    path("agent/scratch", agent_api.AgentScratchView.as_view()),
]
