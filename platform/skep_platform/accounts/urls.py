from __future__ import annotations

from django.urls import URLPattern, path

# `schema` registers itself; it loads much that workers have no use for.
from skep_platform.accounts import api, schema  # noqa: F401

urlpatterns: list[URLPattern] = [
    path("auth/csrf", api.CsrfView.as_view()),
    path("auth/login", api.LoginView.as_view()),
    path("auth/logout", api.LogoutView.as_view()),
    path("auth/token", api.TokenLoginView.as_view()),
    path("auth/password-reset", api.PasswordResetView.as_view()),
    path("auth/tokens", api.TokensView.as_view()),
    path("auth/tokens/<uuid:id>", api.TokenView.as_view()),
    path("me", api.MeView.as_view()),
    path("me/password", api.MyPasswordView.as_view()),
    path("users", api.UsersView.as_view()),
    path("users/<str:username>", api.UserView.as_view()),
    path("users/<str:username>/reset-link", api.ResetLinkView.as_view()),
]
