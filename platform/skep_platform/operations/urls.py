from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.operations import api, rules_api

urlpatterns: list[URLPattern] = [
    path("health/doctor", api.DoctorView.as_view()),
    path("health/platform", api.PlatformView.as_view()),
    path("backups", api.BackupsView.as_view()),
    path("alerts", rules_api.AlertsView.as_view()),
    path("alert-rules", rules_api.AlertRulesView.as_view()),
    path("alert-rules/<uuid:id>", rules_api.AlertRuleView.as_view()),
]
