"""REST: credentials for registries, the caller's own and those of a virtual cluster."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.images import credentials
from skep_platform.images.models import RegistryCredential
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.api import vc_admin

TAGS = ["registry-credentials"]


class RegistryCredentialSerializer(serializers.Serializer[Any]):
    registry = serializers.CharField()
    username = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(help_text="When the password was set last.")


class RegistryCredentialBody(Body):
    username = serializers.CharField(max_length=255)
    password = serializers.CharField(
        max_length=credentials.MAX_PASSWORD,
        trim_whitespace=False,
        write_only=True,
        help_text="A password or an access token. No answer has it.",
    )


class MyCredentialsView(APIView):
    @paged("list_my_registry_credentials", RegistryCredentialSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List your credentials for registries, without the passwords."""
        return page(request, credentials.of(current_user.user(request)), _show, "registry")


class MyCredentialView(APIView):
    @extend_schema(
        operation_id="set_my_registry_credential",
        request=RegistryCredentialBody,
        responses=RegistryCredentialSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, registry: str) -> Response:
        """Store your user name and password for a registry. Your jobs use them for images of that
        registry whose job file has no `auth`."""
        body = validated(RegistryCredentialBody, request)
        row = credentials.store(current_user.user(request), registry, **body)
        return Response(_show([row])[0])

    @extend_schema(operation_id="remove_my_registry_credential", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, registry: str) -> Response:
        """Remove your credentials for a registry. Tasks that run keep running."""
        credentials.remove(current_user.user(request), registry)
        return Response(status=204)


class VcCredentialsView(APIView):
    @paged("list_vc_registry_credentials", RegistryCredentialSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List the credentials of a virtual cluster, without the passwords. For VC admins."""
        vc = tenancy.find(request.user, name)
        vc_admin(request, vc)
        return page(request, credentials.of(vc), _show, "registry")


class VcCredentialView(APIView):
    @extend_schema(
        operation_id="set_vc_registry_credential",
        request=RegistryCredentialBody,
        responses=RegistryCredentialSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, name: str, registry: str) -> Response:
        """Store a user name and password for a registry, for all jobs of the virtual cluster whose
        file and owner have none. For VC admins."""
        vc = tenancy.find(request.user, name)
        vc_admin(request, vc)
        row = credentials.store(vc, registry, **validated(RegistryCredentialBody, request))
        return Response(_show([row])[0])

    @extend_schema(operation_id="remove_vc_registry_credential", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str, registry: str) -> Response:
        """Remove the credentials of a virtual cluster for a registry. For VC admins."""
        vc = tenancy.find(request.user, name)
        vc_admin(request, vc)
        credentials.remove(vc, registry)
        return Response(status=204)


def _show(rows: list[RegistryCredential]) -> list[Any]:
    return list(RegistryCredentialSerializer(rows, many=True).data)
