from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.images import api, credentials_api

urlpatterns: list[URLPattern] = [
    path("images", api.ImagesView.as_view()),
    path("images/<str:name>", api.ImageView.as_view()),
    path("images/<str:name>/inspect", api.ImageInspectView.as_view()),
    path("virtual-clusters/<str:name>/image-rules/check", api.ImageRulesCheckView.as_view()),
    path("virtual-clusters/<str:name>/image-rules", api.ImageRulesView.as_view()),
    path("me/registry-credentials", credentials_api.MyCredentialsView.as_view()),
    path("me/registry-credentials/<str:registry>", credentials_api.MyCredentialView.as_view()),
    path(
        "virtual-clusters/<str:name>/registry-credentials",
        credentials_api.VcCredentialsView.as_view(),
    ),
    path(
        "virtual-clusters/<str:name>/registry-credentials/<str:registry>",
        credentials_api.VcCredentialView.as_view(),
    ),
]
