"""REST: single sign-on. Browsers are sent through these; refusals lead back to the login page."""

from __future__ import annotations

from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import login
from django.http import HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from skep_platform.accounts import confirmation, mfa, oidc, services
from skep_platform.accounts.api import Public
from skep_platform.core.errors import SkepError

COOKIE = "skep_sso"
COOKIE_PATH = "/api/v1/auth/sso"


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
        answer.set_cookie(
            COOKIE,
            flow.seal(),
            max_age=oidc.FLOW_S,
            path=COOKIE_PATH,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
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
        """Start a session for the user whom the identity provider sends back."""
        query = request.query_params
        try:
            flow = oidc.Flow.open(request.COOKIES.get(COOKIE, ""), query.get("state", ""))
            if "code" not in query:
                raise SkepError("The identity provider refused the login.", code="sso_refused")
            user = oidc.finish(flow, query["code"])
        except SkepError as error:
            oidc.note_failure(error.code)
            answer = _refused(error)
        else:
            login(request._request, user)
            # The provider asks for the second factor where there is one.
            request._request.session[mfa.VERIFIED] = True
            confirmation.note(request._request.session)
            services.note_session(user, "sso")
            local = flow.next.startswith("/") and url_has_allowed_host_and_scheme(flow.next, None)
            answer = HttpResponseRedirect(flow.next if local else "/")
        answer.delete_cookie(COOKIE, path=COOKIE_PATH, samesite="Lax")
        return answer


def _refused(error: SkepError) -> HttpResponseRedirect:
    """Lead back to the login page. Only the code goes there: the address may come from anyone."""
    return HttpResponseRedirect(f"/login?{urlencode({'refused': error.code})}")
