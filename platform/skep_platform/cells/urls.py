from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.cells import api, node_api, vc_api

urlpatterns: list[URLPattern] = [
    path("cells", api.CellsView.as_view()),
    path("cells/physical", api.PhysicalCellsView.as_view()),
    path("cells/assignment", api.AssignmentView.as_view()),
    path("cells/assignment/check", api.AssignmentCheckView.as_view()),
    path("cells/hived", api.HivedView.as_view()),
    path("cells/hived/check", api.HivedCheckView.as_view()),
    path("virtual-clusters/<str:name>/cells", vc_api.CellsView.as_view()),
    path("virtual-clusters/<str:name>/queue", vc_api.QueueView.as_view()),
    path("virtual-clusters/<str:name>/history", vc_api.HistoryView.as_view()),
    path("nodes/<str:name>/drain", node_api.DrainView.as_view()),
    path("nodes/<str:name>/undrain", node_api.UndrainView.as_view()),
    path("nodes/<str:name>/forecast", node_api.ForecastView.as_view()),
]
