from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.images import api

urlpatterns: list[URLPattern] = [
    path("images", api.ImagesView.as_view()),
    path("images/<str:name>", api.ImageView.as_view()),
]
