"""REST: virtual clusters, their quotas and members."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import acting
from skep_platform.accounts.models import User
from skep_platform.core.api import AdminWrites, Body, page, validated
from skep_platform.core.errors import Forbidden
from skep_platform.core.schema import PAGE_PARAMETERS, page_of
from skep_platform.tenancy import queries, services
from skep_platform.tenancy.models import Membership, VirtualCluster, Visibility

TAGS = ["virtual-clusters"]


class QuotasField(serializers.DictField):
    child = serializers.IntegerField(min_value=0)


class OwnedCellsSerializer(serializers.Serializer[Any]):
    chain = serializers.CharField()
    cell_type = serializers.CharField()
    number = serializers.IntegerField()


class VirtualClusterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    quotas = QuotasField(help_text="GPUs owned as a number, by GPU model.")
    cells = OwnedCellsSerializer(many=True, help_text="Cells owned, wherever they lie.")
    pins = serializers.ListField(child=serializers.CharField(), help_text="Pinned cells owned.")
    used = QuotasField(help_text="GPUs in use now, by GPU model.")
    role = serializers.ChoiceField(Membership.Role.values, allow_null=True)
    members = serializers.IntegerField()
    job_visibility = serializers.ChoiceField(
        Visibility.values,
        help_text="Who sees jobs that do not say otherwise, besides their owners, managers and "
        "admins.",
    )
    may_manage = serializers.BooleanField(help_text="Its members and who sees its jobs.")


class MemberSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    role = serializers.ChoiceField(Membership.Role.values)


class VirtualClusterBody(Body):
    name = serializers.CharField(max_length=63)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    quotas = QuotasField(required=False)


class VirtualClusterChange(Body):
    name = serializers.CharField(max_length=63, required=False, help_text="Only admins.")
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    job_visibility = serializers.ChoiceField(Visibility.values, required=False)


class QuotasBody(Body):
    quotas = QuotasField()


class MemberBody(Body):
    role = serializers.ChoiceField(Membership.Role.values, required=False)
    confirm = serializers.BooleanField(
        required=False, help_text="Also where no manager would be left."
    )


class VirtualClustersView(APIView):
    permission_classes = (AdminWrites,)

    @extend_schema(
        operation_id="list_virtual_clusters",
        parameters=PAGE_PARAMETERS,
        responses=page_of(VirtualClusterSerializer),
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Those that you belong to; all of them for an admin."""
        rows = queries.with_facts(queries.visible_to(request.user), request.user)
        return page(self, request, rows, lambda vcs: _show(request.user, vcs), "name")

    @extend_schema(
        operation_id="create_virtual_cluster",
        request=VirtualClusterBody,
        responses={201: VirtualClusterSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        vc = services.create(acting.admin(request), **validated(VirtualClusterBody, request))
        return _one(request, vc.name, status=201)


class VirtualClusterView(APIView):
    @extend_schema(
        operation_id="get_virtual_cluster", responses=VirtualClusterSerializer, tags=TAGS
    )
    def get(self, request: Request, name: str) -> Response:
        return _one(request, name)

    @extend_schema(
        operation_id="update_virtual_cluster",
        request=VirtualClusterChange,
        responses=VirtualClusterSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request, name: str) -> Response:
        """For its managers, and admins, who alone may rename it."""
        vc = queries.find(request.user, name)
        user = _manager(request, vc)
        changes = validated(VirtualClusterChange, request, partial=True)
        if "name" in changes:
            user = acting.admin(request)
        vc = services.update(user, vc, **changes)
        return _one(request, vc.name)

    @extend_schema(operation_id="delete_virtual_cluster", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Only one without jobs."""
        vc = queries.find(request.user, name)
        services.delete(acting.admin(request), vc)
        return Response(status=204)


class QuotasView(APIView):
    @extend_schema(
        operation_id="set_quotas",
        request=QuotasBody,
        responses=VirtualClusterSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, name: str) -> Response:
        """Replaces all quotas. Lowering one below its use stops nothing."""
        vc = queries.find(request.user, name)
        services.set_quotas(acting.admin(request), vc, validated(QuotasBody, request)["quotas"])
        return _one(request, name)


class MembersView(APIView):
    @extend_schema(
        operation_id="list_members",
        parameters=PAGE_PARAMETERS,
        responses=page_of(MemberSerializer),
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        vc = queries.find(request.user, name)
        return page(self, request, queries.members(vc), _members, "username")


class MemberView(APIView):
    @extend_schema(
        operation_id="set_member", request=MemberBody, responses=MemberSerializer, tags=TAGS
    )
    def put(self, request: Request, name: str, username: str) -> Response:
        """Adds the user, or changes its role. For managers and admins."""
        vc = queries.find(request.user, name)
        user, body = _manager(request, vc), validated(MemberBody, request)
        role = body.get("role", Membership.Role.MEMBER)
        services.set_member(user, vc, username, role, confirm=body.get("confirm", False))
        return Response({"username": username, "role": role})

    @extend_schema(
        operation_id="remove_member",
        parameters=[
            OpenApiParameter("confirm", bool, description="Also where no manager would be left.")
        ],
        responses={204: None},
        tags=TAGS,
    )
    def delete(self, request: Request, name: str, username: str) -> Response:
        """For managers and admins. The jobs of the member in this virtual cluster stop."""
        vc = queries.find(request.user, name)
        confirm = request.query_params.get("confirm", "") in ("1", "true")
        services.remove_member(_manager(request, vc), vc, username, confirm=confirm)
        return Response(status=204)


def _one(request: Request, name: str, status: int = 200) -> Response:
    vc = queries.find(request.user, name)
    rows = queries.with_facts(VirtualCluster.objects.filter(pk=vc.pk), request.user)
    return Response(_show(request.user, list(rows))[0], status=status)


def _manager(request: Request, vc: VirtualCluster) -> User:
    """Raises Forbidden."""
    user = acting.user(request)
    if not queries.manages(user, vc):
        raise Forbidden(f"Only managers of {vc.name} and admins may do this.")
    return user


def _show(user: Any, vcs: list[Any]) -> list[Any]:
    used, admin = queries.usage(vcs), queries.is_admin(user)
    rows = [
        {
            "name": vc.name,
            "description": vc.description,
            "quotas": {quota.gpu_model: quota.gpus for quota in vc.quotas.all()},
            "cells": sorted(vc.cells.all(), key=lambda cell: (cell.chain, cell.cell_type)),
            "pins": sorted(pin.name for pin in vc.pinned_cells.all()),
            "used": used.get(vc.pk, {}),
            "role": vc.own_role,
            "members": vc.members_count or 0,
            "job_visibility": vc.job_visibility,
            "may_manage": admin or vc.own_role == Membership.Role.MANAGER,
        }
        for vc in vcs
    ]
    return list(VirtualClusterSerializer(rows, many=True).data)


def _members(memberships: list[Membership]) -> list[Any]:
    return list(MemberSerializer(memberships, many=True).data)
