from __future__ import annotations

from django.urls import URLPattern, re_path

from skep_platform.core.failures import unknown_route
from skep_platform.web.views import index

# The first part of every address that the page's router knows; a test compares them.
PAGES = (
    *("login", "reset-password", "jobs", "cluster", "virtual-clusters", "images", "users"),
    *("cells", "profile"),
)

urlpatterns: list[URLPattern] = [
    re_path(rf"^(?:(?:{'|'.join(PAGES)})(?:/.*)?)?$", index, name="web"),
    # A program that asks at a wrong address must not read the page as an answer.
    re_path(r"^(?!static/)", unknown_route),
]
