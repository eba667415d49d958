"""The routes of OpenPAI's API: below /rest-server, and /api/v2 at the root where that is asked for.
Both versions have all of them: the few of version 1 that OpenPAI still serves differ in names."""

from __future__ import annotations

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path, re_path

from skep_platform.compat import accounts_api, cluster_api, groups_api, jobs_api, pages
from skep_platform.compat.base import PaiUnknownView, both

JOB = "jobs/<str:framework>"
ATTEMPT = f"{JOB}/attempts/<int:attempt>"
TASK = f"{ATTEMPT}/taskRoles/<str:role>/taskIndex/<int:index>/attempts"
LOGS = f"{TASK}/<int:retry>/logs"
USER_FIELDS = ("extension", "virtualcluster", "password", "email", "admin")
GROUP_FIELDS = ("description", "externalname", "extension")


def _users(word: str) -> list[URLPattern]:
    """Return the routes of users below `users`, or `user` as older clients write it."""
    found = [
        *both(word, accounts_api.PaiUsersView),
        *both(f"{word}/me", accounts_api.PaiMeView),
        *both(f"{word}/<str:username>", accounts_api.PaiUserView),
        *both(f"{word}/<str:username>/group", accounts_api.PaiUserGroupView),
        *both(f"{word}/<str:username>/grouplist", accounts_api.PaiUserGroupsView),
    ]
    for field in USER_FIELDS:
        route = f"{word}/<str:username>/{field}"
        found += both(route, accounts_api.PaiUserFieldView, extra={"field": field})
    return found


def _groups(word: str) -> list[URLPattern]:
    """Return the routes of groups below `groups`, or `group` as older clients write it."""
    found = [
        *both(word, groups_api.PaiGroupsView),
        *both(f"{word}/<str:name>", groups_api.PaiGroupView),
        *both(f"{word}/<str:name>/userlist", groups_api.PaiGroupUsersView),
        *both(f"{word}/<str:name>/extension/<path:keys>", groups_api.PaiGroupExtensionView),
    ]
    for field in GROUP_FIELDS:
        route = f"{word}/<str:name>/{field}"
        found += both(route, groups_api.PaiGroupFieldView, extra={"field": field})
    return found


routes: list[URLPattern] = [
    path("", accounts_api.PaiInfoView.as_view()),
    *both("info", accounts_api.PaiInfoView),
    *both("authn/info", accounts_api.PaiAuthnInfoView),
    *both("authn/basic/login", accounts_api.PaiLoginView),
    *both("authn/basic/logout", accounts_api.PaiLogoutView),
    *(
        route
        for name in ("login", "logout", "return")
        for route in both(f"authn/oidc/{name}", accounts_api.PaiOidcView)
    ),
    *both("tokens", accounts_api.PaiTokensView),
    *both("tokens/application", accounts_api.PaiApplicationTokenView),
    *both("tokens/check", accounts_api.PaiTokenCheckView),
    *both("tokens/<str:token>", accounts_api.PaiTokenView),
    *(route for word in ("users", "user") for route in _users(word)),
    *(route for word in ("groups", "group") for route in _groups(word)),
    *both("virtual-clusters", cluster_api.PaiVirtualClustersView),
    *both("virtual-clusters/<str:name>", cluster_api.PaiVirtualClusterView),
    *both("virtual-clusters/<str:name>/status", cluster_api.PaiVcStatusView),
    *both("virtual-clusters/<str:name>/sku-types", cluster_api.PaiSkuTypesView),
    *both("cluster/sku-types", cluster_api.PaiSkuTypesView),
    *both("storages", cluster_api.PaiStoragesView),
    *both("storages/<str:name>", cluster_api.PaiStorageView),
    *(
        path(f"storage/{kind}{rest}", cluster_api.PaiOldStorageView.as_view(), {"kind": kind})
        for kind in ("config", "server")
        for rest in ("", "/<str:name>")
    ),
    *both("kubernetes/nodes", cluster_api.PaiKubernetesNodesView),
    *both("kubernetes/pods", cluster_api.PaiKubernetesPodsView),
    *both("alerts", cluster_api.PaiAlertsView),
    *both("jobs", jobs_api.PaiJobsView),
    *both(JOB, jobs_api.PaiJobView),
    *both(f"{JOB}/config", jobs_api.PaiConfigView),
    *both(f"{JOB}/executionType", jobs_api.PaiExecutionTypeView),
    *both(f"{JOB}/tag", jobs_api.PaiTagView),
    *both(f"{JOB}/events", jobs_api.PaiEventsView),
    *both(f"{JOB}/ssh", jobs_api.PaiSshView),
    *both(f"{JOB}/job-attempts", jobs_api.PaiJobAttemptsView),
    *both(f"{JOB}/job-attempts/healthz", jobs_api.PaiHistoryHealthView),
    *both(f"{JOB}/job-attempts/<int:attempt>", jobs_api.PaiJobAttemptView),
    *both(ATTEMPT, jobs_api.PaiJobAtAttemptView),
    *both(TASK, jobs_api.PaiTaskAttemptsView),
    *both(LOGS, jobs_api.PaiLogsView),
    *both(f"{LOGS}/<str:name>", jobs_api.PaiLogView),
]

# Of version 1 alone. A job is named by two parts of the address there.
routes_v1: list[URLPattern] = [
    *both("token", accounts_api.PaiTokenLoginView),
    *both("token/application", accounts_api.PaiApplicationTokenView),
    *both("token/check", accounts_api.PaiTokenCheckView),
    *both("token/<str:token>", accounts_api.PaiTokenView),
    *both("jobs", jobs_api.PaiOldJobsView),
    *both("user/<str:username>/jobs", jobs_api.PaiUserJobsView),
    *both("user/<str:username>/jobs/<str:name>", jobs_api.PaiUserJobView),
    *both("user/<str:username>/jobs/<str:name>/config", jobs_api.PaiUserJobConfigView),
    *both("user/<str:username>/jobs/<str:name>/executionType", jobs_api.PaiUserJobExecutionView),
    *both("user/<str:username>/jobs/<str:name>/ssh", jobs_api.PaiUserJobSshView),
    *both("jobs/<str:username>/jobs/<str:name>/config", jobs_api.PaiUserJobConfigView),
]

unknown = [re_path(r"^.*$", PaiUnknownView.as_view())]
page_routes: list[URLPattern] = [
    path("job-detail.html", pages.job_detail),
    path("view.html", pages.job_detail),
    path("job-list.html", pages.job_list),
]


def patterns() -> list[URLPattern | URLResolver]:
    """Return the routes that the settings switch on."""
    if not settings.SKEP_OPENPAI_API:
        return []
    found: list[URLPattern | URLResolver] = [
        path("rest-server/api/v1/", include([*routes_v1, *routes])),
        path("rest-server/api/v2/", include(routes)),
        path("rest-server/", include(unknown)),
        *page_routes,
    ]
    if settings.SKEP_OPENPAI_API == "root":
        found += [path("api/v2/", include([*routes, *unknown]))]
    return found
