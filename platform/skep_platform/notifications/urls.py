from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.notifications import api, webhooks_api

urlpatterns: list[URLPattern] = [
    path("notifications", api.NotificationsView.as_view()),
    path("notifications/unread", api.UnreadView.as_view()),
    path("notifications/read", api.ReadView.as_view()),
    path("notifications/preferences", api.PreferencesView.as_view()),
    path("notifications/test", api.TestView.as_view()),
    path("notifications/deliveries", api.DeliveriesView.as_view()),
    path("notifications/deliveries/<uuid:id>", api.DeliveryView.as_view()),
    path("notifications/unsubscribe", api.UnsubscribeView.as_view()),
    path("notifications/<uuid:id>", api.NotificationView.as_view()),
    path("webhooks", webhooks_api.WebhooksView.as_view()),
    path("webhooks/<uuid:id>", webhooks_api.WebhookView.as_view()),
    path("webhooks/<uuid:id>/secret", webhooks_api.SecretView.as_view()),
]
