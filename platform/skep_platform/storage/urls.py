from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.storage import api, datasets_api, files_api

urlpatterns: list[URLPattern] = [
    path("storages", api.StoragesView.as_view()),
    path("storages/<str:name>", api.StorageView.as_view()),
    path("storages/<str:name>/grants/<str:virtual_cluster>", api.GrantView.as_view()),
    path("storages/<str:name>/groups/<str:group>", api.GroupGrantView.as_view()),
    path("storages/<str:name>/files", files_api.StorageFilesView.as_view()),
    path("storages/<str:name>/content", files_api.StorageContentView.as_view()),
    path("storages/<str:name>/upload", files_api.StorageUploadView.as_view()),
    path("storages/<str:name>/usage", files_api.StorageUsageView.as_view()),
    path("datasets", datasets_api.DatasetsView.as_view()),
    path("datasets/<uuid:id>", datasets_api.DatasetView.as_view()),
]
