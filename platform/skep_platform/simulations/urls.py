from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.simulations import api, export_api, forecasting_api, policy_check

urlpatterns: list[URLPattern] = [
    path("simulations", api.SimulationsView.as_view()),
    path("simulations/trace", export_api.TraceView.as_view()),
    path("simulations/node-events", export_api.NodeEventsView.as_view()),
    path("simulations/cluster", export_api.SimulatedClusterView.as_view()),
    path("simulations/options", api.OptionsView.as_view()),
    path("simulations/<uuid:id>", api.SimulationView.as_view()),
    path("simulations/<uuid:id>/stop", api.SimulationStopView.as_view()),
    path("virtual-clusters/<str:name>/policy/check", policy_check.PolicyCheckView.as_view()),
    path(
        "virtual-clusters/<str:name>/policy/forecast", forecasting_api.PolicyForecastView.as_view()
    ),
]
