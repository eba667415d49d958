from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.tenancy import api, limits_api

urlpatterns: list[URLPattern] = [
    path("virtual-clusters", api.VirtualClustersView.as_view()),
    path("virtual-clusters/<str:name>", api.VirtualClusterView.as_view()),
    path("virtual-clusters/<str:name>/quotas", api.QuotasView.as_view()),
    path("virtual-clusters/<str:name>/members", api.MembersView.as_view()),
    path("virtual-clusters/<str:name>/members/<str:username>", api.MemberView.as_view()),
    path("virtual-clusters/<str:name>/limits", limits_api.LimitsView.as_view()),
    path("virtual-clusters/<str:name>/limits/<str:limit>", limits_api.LimitView.as_view()),
]
