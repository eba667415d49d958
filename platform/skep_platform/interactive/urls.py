from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.interactive import api

urlpatterns: list[URLPattern] = [
    path("apps", api.AppsView.as_view()),
    path("apps/<uuid:id>", api.AppView.as_view()),
    path("apps/<uuid:id>/open", api.OpenView.as_view()),
    path("jobs/<uuid:id>/apps", api.JobAppsView.as_view()),
]
