"""All HTTP routes: the API by app, its docs, and the web UI for everything else."""

from __future__ import annotations

from django.urls import include, path, re_path

from skep_platform.compat import urls as compat
from skep_platform.core import failures
from skep_platform.web import urls as web

urlpatterns = [
    path("api/v1/", include("skep_platform.core.urls")),
    path("api/v1/", include("skep_platform.audit.urls")),
    path("api/v1/", include("skep_platform.accounts.urls")),
    path("api/v1/", include("skep_platform.tenancy.urls")),
    path("api/v1/", include("skep_platform.cluster.urls")),
    path("api/v1/", include("skep_platform.images.urls")),
    path("api/v1/", include("skep_platform.files.urls")),
    path("api/v1/", include("skep_platform.storage.urls")),
    path("api/v1/", include("skep_platform.jobs.urls")),
    path("api/v1/", include("skep_platform.templates.urls")),
    path("api/v1/", include("skep_platform.telemetry.urls")),
    path("api/v1/", include("skep_platform.usage.urls")),
    path("api/v1/", include("skep_platform.notifications.urls")),
    path("api/v1/", include("skep_platform.cells.urls")),
    path("api/v1/", include("skep_platform.simulations.urls")),
    path("api/v1/", include("skep_platform.gateway.urls")),
    path("api/v1/", include("skep_platform.interactive.urls")),
    path("api/v1/", include("skep_platform.operations.urls")),
    path("api/v1/", include(web.api_urlpatterns)),
    *compat.patterns(),
    re_path(r"^api(?:/|$)", failures.unknown_route),
    path("", include("skep_platform.web.urls")),
]

handler400 = failures.bad_request
handler403 = failures.permission_denied
handler404 = failures.not_found
handler500 = failures.server_error
