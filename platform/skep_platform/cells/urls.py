from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.cells import api

urlpatterns: list[URLPattern] = [
    path("cells", api.CellsView.as_view()),
    path("cells/physical", api.PhysicalCellsView.as_view()),
    path("cells/assignment", api.AssignmentView.as_view()),
    path("cells/assignment/check", api.AssignmentCheckView.as_view()),
    path("cells/hived", api.HivedView.as_view()),
    path("cells/hived/check", api.HivedCheckView.as_view()),
    path("virtual-clusters/<str:name>/cells", api.VcCellsView.as_view()),
    path("virtual-clusters/<str:name>/queue", api.QueueView.as_view()),
    path("virtual-clusters/<str:name>/history", api.HistoryView.as_view()),
    path("virtual-clusters/<str:name>/fairness", api.FairnessView.as_view()),
    path("nodes/<str:name>/drain", api.DrainView.as_view()),
    path("nodes/<str:name>/undrain", api.UndrainView.as_view()),
    path("nodes/<str:name>/forecast", api.ForecastView.as_view()),
]
