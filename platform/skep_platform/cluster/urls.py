from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.cluster import announcements, api, checks, maintenance

# "join" and "join-tokens" come first: no node may have these names.
urlpatterns: list[URLPattern] = [
    path("announcements", announcements.AnnouncementsView.as_view()),
    path("announcements/<uuid:id>", announcements.AnnouncementView.as_view()),
    path("announcements/<uuid:id>/dismissal", announcements.DismissalView.as_view()),
    path("maintenance-windows", maintenance.MaintenanceWindowsView.as_view()),
    path("maintenance-windows/<uuid:id>", maintenance.MaintenanceWindowView.as_view()),
    path("nodes", api.NodesView.as_view()),
    path("nodes/join-tokens", api.JoinTokensView.as_view()),
    path("nodes/join-tokens/<uuid:token_id>", api.JoinTokenView.as_view()),
    path("nodes/join", api.JoinView.as_view()),
    path("nodes/<str:name>", api.NodeView.as_view()),
    path("nodes/<str:name>/faults", api.FaultsView.as_view()),
    path("nodes/<str:name>/checks", checks.NodeChecksView.as_view()),
    path("nodes/<str:name>/cordon", api.CordonView.as_view()),
    path("nodes/<str:name>/uncordon", api.UncordonView.as_view()),
    path("nodes/<str:name>/declare-lost", api.DeclareLostView.as_view()),
]
