from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.jobs import (
    api,
    bulk_api,
    image_saves_api,
    saved_views_api,
    shares_api,
    steering_api,
    writing_api,
)

urlpatterns: list[URLPattern] = [
    path("jobs", api.JobsView.as_view()),
    path("jobs/bulk/stop", bulk_api.BulkStopView.as_view()),
    path("jobs/bulk/tags", bulk_api.BulkTagsView.as_view()),
    path("me/job-views", saved_views_api.SavedViewsView.as_view()),
    path("me/job-views/<uuid:id>", saved_views_api.SavedViewView.as_view()),
    path("jobs/causes", api.CausesView.as_view()),
    path("jobs/check", api.CheckView.as_view()),
    path("jobs/count", api.CountView.as_view()),
    path("jobs/convert", writing_api.ConvertView.as_view()),
    path("jobs/schema", api.SchemaView.as_view()),
    path("jobs/<uuid:id>", api.JobView.as_view()),
    path("jobs/<uuid:id>/stop", api.StopView.as_view()),
    path("jobs/<uuid:id>/retry", writing_api.RetryView.as_view()),
    path("jobs/<uuid:id>/end-retries", steering_api.EndRetriesView.as_view()),
    path("jobs/<uuid:id>/opportunistic", steering_api.OpportunisticView.as_view()),
    path("jobs/<uuid:id>/move", steering_api.MoveView.as_view()),
    path("jobs/<uuid:id>/run-again", steering_api.RunAgainView.as_view()),
    path("jobs/<uuid:id>/clone", writing_api.CloneView.as_view()),
    path("jobs/<uuid:id>/tags", writing_api.TagsView.as_view()),
    path("jobs/<uuid:id>/priority", writing_api.PriorityView.as_view()),
    path("jobs/<uuid:id>/idle-exemption", writing_api.IdleExemptionView.as_view()),
    path("jobs/<uuid:id>/visibility", writing_api.VisibilityView.as_view()),
    path("jobs/<uuid:id>/image-saves", image_saves_api.ImageSavesView.as_view()),
    path("image-saves/<uuid:id>", image_saves_api.ImageSaveView.as_view()),
    path("me/saved-images", image_saves_api.SavedImagesView.as_view()),
    path("jobs/<uuid:id>/shares", shares_api.SharesView.as_view()),
    path("jobs/<uuid:id>/shares/users/<str:username>", shares_api.UserShareView.as_view()),
    path("jobs/<uuid:id>/shares/groups/<str:group>", shares_api.GroupShareView.as_view()),
    path("jobs/<uuid:id>/tasks", api.TasksView.as_view()),
    path("jobs/<uuid:id>/tasks/<int:rank>/attempts", api.TaskAttemptsView.as_view()),
    path("jobs/<uuid:id>/attempts", api.JobAttemptsView.as_view()),
    path("jobs/<uuid:id>/events", api.EventsView.as_view()),
]
