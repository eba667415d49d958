"""The forecast of a virtual cluster under another policy, before the policy is saved."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import validated
from skep_platform.simulations import api, forecasting, queries
from skep_platform.tenancy.api import PolicyChoiceBody


class PolicyForecastView(APIView):
    @extend_schema(
        operation_id="forecast_policy",
        request=PolicyChoiceBody,
        responses={200: api.SimulationSerializer, 201: api.SimulationSerializer},
        tags=api.TAGS,
    )
    def post(self, request: Request, name: str) -> Response:
        """Simulate the present queue of a virtual cluster under another policy, in the
        background. For its VC admins and admins. Equal facts give the same answer for ten
        minutes."""
        vc = queries.scope(request.user, name)
        assert vc is not None
        body = validated(PolicyChoiceBody, request)
        wanted = {"name": body["name"], "parameters": body.get("parameters", {})}
        found, made = forecasting.ask(current_user.user(request), vc, wanted)
        return Response(api.shown(request.user, found), status=201 if made else 200)
