"""All HTTP routes: the API by app, its docs, and the web UI for everything else."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("api/v1/", include("skep_platform.core.urls")),
    path("api/v1/", include("skep_platform.accounts.urls")),
    path("api/v1/", include("skep_platform.tenancy.urls")),
    path("api/v1/", include("skep_platform.cluster.urls")),
    path("api/v1/", include("skep_platform.images.urls")),
    path("api/v1/", include("skep_platform.jobs.urls")),
    path("api/v1/", include("skep_platform.telemetry.urls")),
    path("", include("skep_platform.web.urls")),
]
