"""REST: account recovery by e-mail, and the confirmation of e-mail addresses."""

from __future__ import annotations

from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from skep_platform.accounts import confirmation, current_user, recovery
from skep_platform.accounts.api import Public
from skep_platform.accounts.mfa_api import OwnMfa
from skep_platform.core.api import Body, validated
from skep_platform.core.throttling import CountsGuesses, Recoveries


class RecoveryBody(Body):
    user = serializers.CharField(max_length=254, help_text="User name or e-mail address.")


class EmailBody(Body):
    email = serializers.EmailField(max_length=254)


class EmailConfirmBody(Body):
    token = serializers.CharField(max_length=2000)


@method_decorator(csrf_protect, name="dispatch")
class RecoveryView(Public):
    throttle_classes = (Recoveries,)

    @extend_schema(
        operation_id="recover_account",
        request=RecoveryBody,
        responses={202: None},
        auth=[],
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Send a link to set a new password to the confirmed e-mail address of this account. The
        answer is the same where there is none."""
        recovery.ask(validated(RecoveryBody, request)["user"].strip())
        return Response(status=202)


class EmailView(OwnMfa):
    before_mfa = False

    @extend_schema(
        operation_id="change_my_email", request=EmailBody, responses={202: None}, tags=["me"]
    )
    def post(self, request: Request) -> Response:
        """Send a link to an address. It becomes yours, and can recover your account, when you open
        the link. Needs a confirmation of the last minutes."""
        user = current_user.user(request)
        confirmation.required(request, user)
        recovery.ask_to_confirm(user, validated(EmailBody, request)["email"])
        return Response(status=202)


class EmailConfirmView(CountsGuesses, OwnMfa):
    before_mfa = False

    @extend_schema(
        operation_id="confirm_my_email",
        request=EmailConfirmBody,
        responses={204: None},
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Confirm an address by the link that was sent to it."""
        self.session(request)
        token = validated(EmailConfirmBody, request)["token"]
        recovery.confirm(current_user.user(request), token)
        return Response(status=204)
