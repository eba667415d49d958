from __future__ import annotations

from django.urls import URLPattern, path, re_path

from skep_platform.core.failures import unknown_route
from skep_platform.web.api import ClusterView, GridView, HealthView, UseView
from skep_platform.web.home import HomeView
from skep_platform.web.metrics import VcMetricsView
from skep_platform.web.views import documentation, index

# The first part of every address that the page's router knows; a test compares them.
PAGES = (
    *("login", "reset-password", "forgot-password", "confirm-email", "device"),
    *("jobs", "archive", "templates", "cluster", "virtual-clusters", "images", "storages"),
    *("apps", "datasets", "simulator"),
    *("users", "groups", "tokens", "cells", "audit", "health", "usage", "profile", "settings"),
    "about",
    *("notifications", "announcements", "unsubscribe"),
)

urlpatterns: list[URLPattern] = [
    re_path(rf"^(?:(?:{'|'.join(PAGES)})(?:/.*)?)?$", index, name="web"),
    re_path(r"^docs/?$", documentation),
    # A program that asks at a wrong address must not read the page as an answer.
    re_path(r"^(?!static/)", unknown_route),
]

# Below api/v1/, with the routes of the other apps.
api_urlpatterns: list[URLPattern] = [
    path("home", HomeView.as_view()),
    path("cluster", ClusterView.as_view()),
    path("cluster/grid", GridView.as_view()),
    path("cluster/use", UseView.as_view()),
    path("health", HealthView.as_view()),
    path("virtual-clusters/<str:name>/metrics", VcMetricsView.as_view()),
]
