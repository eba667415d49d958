"""Who answers here: for clients that look for a server, before they log in."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import permissions, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform import __version__


class InfoSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.CharField()


class InfoView(APIView):
    authentication_classes = ()
    permission_classes = (permissions.AllowAny,)

    @extend_schema(operation_id="info", responses=InfoSerializer, auth=[], tags=["info"])
    def get(self, request: Request) -> Response:
        return Response({"name": "Skep", "version": __version__})
