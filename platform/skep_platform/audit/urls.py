from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.audit import api

urlpatterns: list[URLPattern] = [
    path("audit", api.AuditView.as_view()),
    path("audit/actions", api.AuditActionsView.as_view()),
    path("audit/export", api.AuditExportView.as_view()),
]
