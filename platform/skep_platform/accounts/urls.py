from __future__ import annotations

from django.urls import URLPattern, path

from skep_platform.accounts import api, groups_api, mfa_api, oidc_api, recovery_api, tokens_api

urlpatterns: list[URLPattern] = [
    path("auth/csrf", api.CsrfView.as_view()),
    path("auth/login", api.LoginView.as_view()),
    path("auth/passkey", api.PasskeyLoginView.as_view()),
    path("auth/passkey/start", api.PasskeyChallengeView.as_view()),
    path("auth/logout", api.LogoutView.as_view()),
    path("auth/token", api.TokenLoginView.as_view()),
    path("auth/password-reset", api.PasswordResetView.as_view()),
    path("auth/recovery", recovery_api.RecoveryView.as_view()),
    path("auth/sso/start", oidc_api.SsoStartView.as_view()),
    path("auth/sso/callback", oidc_api.SsoCallbackView.as_view()),
    path("auth/tokens", api.TokensView.as_view()),
    path("auth/tokens/<uuid:id>", api.TokenView.as_view()),
    path("me", api.MeView.as_view()),
    path("me/password", api.MyPasswordView.as_view()),
    path("me/email", recovery_api.EmailView.as_view()),
    path("me/email/confirm", recovery_api.EmailConfirmView.as_view()),
    path("me/sso", oidc_api.MySsoView.as_view()),
    path("me/mfa", mfa_api.MfaView.as_view()),
    path("me/mfa/start", mfa_api.MfaStartView.as_view()),
    path("me/mfa/confirm", mfa_api.MfaConfirmView.as_view()),
    path("me/mfa/recovery-codes", mfa_api.RecoveryCodesView.as_view()),
    path("me/mfa/disable", mfa_api.MfaDisableView.as_view()),
    path("me/confirm", mfa_api.ConfirmView.as_view()),
    path("me/mfa/keys", mfa_api.KeysView.as_view()),
    path("me/mfa/keys/start", mfa_api.KeyStartView.as_view()),
    path("me/mfa/keys/<int:id>", mfa_api.KeyView.as_view()),
    path("tokens", tokens_api.AllTokensView.as_view()),
    path("tokens/<uuid:id>", tokens_api.AnyTokenView.as_view()),
    path("users", api.UsersView.as_view()),
    path("users/<str:username>", api.UserView.as_view()),
    path("users/<str:username>/reset-link", api.ResetLinkView.as_view()),
    path("users/<str:username>/mfa", mfa_api.UserMfaView.as_view()),
    path("groups", groups_api.GroupsView.as_view()),
    path("groups/<str:name>", groups_api.GroupView.as_view()),
    path("groups/<str:name>/members", groups_api.GroupMembersView.as_view()),
    path("groups/<str:name>/members/<str:username>", groups_api.GroupMemberView.as_view()),
]
