from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.telemetry import api, ranks_api, user_metrics_api

urlpatterns: list[URLPattern] = [
    path("jobs/<uuid:id>/logs", api.JobLogsView.as_view()),
    path("jobs/<uuid:id>/logs/download", api.JobLogDownloadView.as_view()),
    path("jobs/<uuid:id>/logs/search", api.JobLogSearchView.as_view()),
    path("jobs/<uuid:id>/log-tails", ranks_api.RankLogsView.as_view()),
    path("jobs/<uuid:id>/ranks", ranks_api.RanksView.as_view()),
    path("jobs/<uuid:id>/attempts/<int:index>", ranks_api.JobAttemptView.as_view()),
    path("jobs/<uuid:id>/metrics", api.JobMetricsView.as_view()),
    path("jobs/<uuid:id>/metrics/user", user_metrics_api.UserMetricsView.as_view()),
    path("jobs/compare", user_metrics_api.CompareView.as_view()),
    path("jobs/<uuid:id>/use", api.JobUseView.as_view()),
    path("predictions", api.PredictionsView.as_view()),
    path("attempts/<uuid:id>/logs/<str:stream>", api.StreamLogView.as_view()),
]
