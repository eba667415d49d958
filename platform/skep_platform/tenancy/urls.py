from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.tenancy import api, members_api
from skep_platform.tenancy import service_accounts_api as accounts

urlpatterns: list[URLPattern] = [
    path("user-imports", members_api.UserImportView.as_view()),
    path("policies", api.PoliciesView.as_view()),
    path("virtual-clusters", api.VirtualClustersView.as_view()),
    path("virtual-clusters/<str:name>", api.VirtualClusterView.as_view()),
    path("virtual-clusters/<str:name>/quotas", api.QuotasView.as_view()),
    path("virtual-clusters/<str:name>/members", members_api.MembersView.as_view()),
    path("virtual-clusters/<str:name>/members/<str:username>", members_api.MemberView.as_view()),
    path("virtual-clusters/<str:name>/groups", members_api.GroupRolesView.as_view()),
    path("virtual-clusters/<str:name>/groups/<str:group>", members_api.GroupRoleView.as_view()),
    path("virtual-clusters/<str:name>/service-accounts", accounts.ServiceAccountsView.as_view()),
    path(
        "virtual-clusters/<str:name>/service-accounts/<str:account>",
        accounts.ServiceAccountView.as_view(),
    ),
    path(
        "virtual-clusters/<str:name>/service-accounts/<str:account>/tokens",
        accounts.ServiceTokensView.as_view(),
    ),
    path(
        "virtual-clusters/<str:name>/service-accounts/<str:account>/tokens/<uuid:token>",
        accounts.ServiceTokenView.as_view(),
    ),
    path("virtual-clusters/<str:name>/limits", api.LimitsView.as_view()),
    path("virtual-clusters/<str:name>/limits/<str:limit>", api.LimitView.as_view()),
]
