from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.jobs import api, history_api, writing_api

urlpatterns: list[URLPattern] = [
    path("jobs", api.JobsView.as_view()),
    path("jobs/check", api.CheckView.as_view()),
    path("jobs/convert", writing_api.ConvertView.as_view()),
    path("jobs/schema", api.SchemaView.as_view()),
    path("jobs/<uuid:id>", api.JobView.as_view()),
    path("jobs/<uuid:id>/stop", api.StopView.as_view()),
    path("jobs/<uuid:id>/retry", writing_api.RetryView.as_view()),
    path("jobs/<uuid:id>/clone", writing_api.CloneView.as_view()),
    path("jobs/<uuid:id>/tags", writing_api.TagsView.as_view()),
    path("jobs/<uuid:id>/priority", writing_api.PriorityView.as_view()),
    path("jobs/<uuid:id>/visibility", writing_api.VisibilityView.as_view()),
    path("jobs/<uuid:id>/tasks", api.TasksView.as_view()),
    path("jobs/<uuid:id>/tasks/<int:rank>/attempts", history_api.TaskAttemptsView.as_view()),
    path("jobs/<uuid:id>/attempts", history_api.JobAttemptsView.as_view()),
    path("jobs/<uuid:id>/events", api.EventsView.as_view()),
]
