from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.images import api, credentials_api, prefetch_api

urlpatterns: list[URLPattern] = [
    path("images", api.ImagesView.as_view()),
    path("images/<str:name>", api.ImageView.as_view()),
    path("images/<str:name>/inspect", api.ImageInspectView.as_view()),
    path("images/<str:name>/nodes", prefetch_api.ImageNodesView.as_view()),
    path("images/<str:name>/prefetches", prefetch_api.ImagePrefetchesView.as_view()),
    path("nodes/<str:name>/images", prefetch_api.NodeImagesView.as_view()),
    path("prefetches", prefetch_api.PrefetchesView.as_view()),
    path("prefetches/<uuid:id>", prefetch_api.PrefetchView.as_view()),
    path("prefetches/<uuid:id>/nodes", prefetch_api.PrefetchNodesView.as_view()),
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
