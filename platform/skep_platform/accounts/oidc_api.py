"""REST: single sign-on. Browsers are sent through these; refusals lead back to the login page."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user, login, update_session_auth_hash
from django.http import HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from skep_platform.accounts import confirmation, current_user, external, mfa, oidc, services
from skep_platform.accounts.api import Public
from skep_platform.accounts.mfa_api import OwnMfa
from skep_platform.accounts.models import User
from skep_platform.core import caller
from skep_platform.core.errors import SkepError

COOKIE = "skep_sso"
COOKIE_PATH = "/api/v1/auth/sso"
SETTINGS_PAGE = "/settings/security"


class SsoStartView(Public):
    @extend_schema(
        operation_id="start_sso",
        parameters=[OpenApiParameter("next", str, description="Page to open after the login.")],
        responses={302: None},
        auth=[],
        tags=["auth"],
    )
    def get(self, request: Request) -> HttpResponseRedirect:
        """Send the browser to the identity provider."""
        try:
            address, flow = oidc.start(request.query_params.get("next", ""))
        except SkepError as error:
            return _refused(error)
        answer = HttpResponseRedirect(address)
        _keep(answer, flow)
        return answer


class SsoCallbackView(Public):
    @extend_schema(
        operation_id="finish_sso",
        parameters=[OpenApiParameter("code", str), OpenApiParameter("state", str)],
        responses={302: None},
        auth=[],
        tags=["auth"],
    )
    def get(self, request: Request) -> HttpResponseRedirect:
        """Start a session for the user whom the identity provider sends back, or link the account
        of a user who is logged in."""
        query = request.query_params
        page = "/login"
        user: User | None = None
        try:
            flow = oidc.Flow.open(request.COOKIES.get(COOKIE, ""), query.get("state", ""))
            if flow.link:
                page = SETTINGS_PAGE
                user = _of_session(request)
            if "code" not in query:
                raise SkepError("The identity provider refused the login.", code="sso_refused")
            if user:
                oidc.finish_link(flow, query["code"], user)
                answer = HttpResponseRedirect(f"{SETTINGS_PAGE}?linked=true")
            else:
                answer = HttpResponseRedirect(_finish_login(request, flow, query["code"]))
        except SkepError as error:
            oidc.note_failure(error.code, page == SETTINGS_PAGE, user.username if user else "")
            answer = _refused(error, page)
        answer.delete_cookie(COOKIE, path=COOKIE_PATH, samesite="Lax")
        return answer


class SsoLinkSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(allow_blank=True, help_text="Empty: there is no single sign-on.")
    linked = serializers.BooleanField()
    linked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    can_unlink = serializers.BooleanField(help_text="Another way to log in remains.")


class SsoAddressSerializer(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="Where the browser goes to link the account.")


class MySsoView(OwnMfa):
    before_mfa = False

    @extend_schema(operation_id="get_my_sso", responses=SsoLinkSerializer, tags=["me"])
    def get(self, request: Request) -> Response:
        """Whether your account is linked to one of the identity provider."""
        user = current_user.user(request)
        name = settings.SKEP_OIDC_NAME if oidc.is_on() else ""
        return Response({"name": name} | external.status(user, settings.SKEP_OIDC_ISSUER))

    @extend_schema(
        operation_id="link_my_sso", request=None, responses=SsoAddressSerializer, tags=["me"]
    )
    def post(self, request: Request) -> Response:
        """Begin to link your account to one of the identity provider, in this browser. Needs a
        confirmation of the last minutes."""
        user = current_user.user(request)
        confirmation.required(request, user)
        address, flow = oidc.start(SETTINGS_PAGE, link=user.pk)
        answer = Response({"url": address})
        _keep(answer, flow)
        return answer

    @extend_schema(operation_id="unlink_my_sso", responses={204: None}, tags=["me"])
    def delete(self, request: Request) -> Response:
        """End the link to the identity provider, where a password logs you in; all other sessions
        end. Needs a confirmation of the last minutes."""
        user = current_user.user(request)
        confirmation.required(request, user)
        user = services.unlink_sso(user)
        update_session_auth_hash(request._request, user)
        return Response(status=204)


def _finish_login(request: Request, flow: oidc.Flow, code: str) -> str:
    user = oidc.finish(flow, code)
    login(request._request, user)
    # The provider asks for the second factor where there is one.
    request._request.session[mfa.VERIFIED] = True
    confirmation.note(request._request.session)
    services.note_session(user, "sso")
    local = flow.next.startswith("/") and url_has_allowed_host_and_scheme(flow.next, None)
    return flow.next if local else "/"


def _of_session(request: Request) -> User:
    """Return who is logged in in this browser. Raises SkepError `sso_state`."""
    user = get_user(request._request)  # of the session; the framework has put no one there
    if not isinstance(user, User):
        raise SkepError("Log in first, then link the account again.", code="sso_state")
    caller.identify(user)
    return user


def _keep(answer: HttpResponse, flow: oidc.Flow) -> None:
    answer.set_cookie(
        COOKIE,
        flow.seal(),
        max_age=oidc.FLOW_S,
        path=COOKIE_PATH,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


def _refused(error: SkepError, page: str = "/login") -> HttpResponseRedirect:
    """Lead back to a page. Only the code goes there: the address may come from anyone."""
    return HttpResponseRedirect(f"{page}?{urlencode({'refused': error.code})}")
