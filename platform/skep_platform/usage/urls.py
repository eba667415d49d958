from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.usage import api

urlpatterns: list[URLPattern] = [
    path("usage", api.UsageView.as_view()),
    path("usage/export", api.UsageExportView.as_view()),
    path("virtual-clusters/<str:name>/report", api.ReportView.as_view()),
    path("virtual-clusters/<str:name>/report/export", api.ReportExportView.as_view()),
    path("virtual-clusters/<str:name>/budget", api.BudgetView.as_view()),
]
