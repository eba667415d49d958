from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.jobs import api

urlpatterns: list[URLPattern] = [
    path("jobs", api.JobsView.as_view()),
    path("jobs/check", api.CheckView.as_view()),
    path("jobs/schema", api.SchemaView.as_view()),
    path("jobs/<uuid:id>", api.JobView.as_view()),
    path("jobs/<uuid:id>/stop", api.StopView.as_view()),
    path("jobs/<uuid:id>/tasks", api.TasksView.as_view()),
    path("jobs/<uuid:id>/events", api.EventsView.as_view()),
]
