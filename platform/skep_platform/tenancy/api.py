"""REST: virtual clusters with their quotas, members, scheduling policies and limits."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import User
from skep_platform.core import ports
from skep_platform.core.api import AdminWrites, Body, validated
from skep_platform.core.errors import Forbidden
from skep_platform.core.paging import page, paged
from skep_platform.tenancy import limits, queries, services
from skep_platform.tenancy.limits import LIMITS
from skep_platform.tenancy.models import Role, VirtualCluster, Visibility
from skep_scheduler.policies.families import Family

TAGS = ["virtual-clusters"]
FAMILIES = [family.value for family in Family]


class QuotasField(serializers.DictField):
    child = serializers.IntegerField(min_value=0)


class OwnedCellsSerializer(serializers.Serializer[Any]):
    chain = serializers.CharField()
    cell_type = serializers.CharField()
    number = serializers.IntegerField()


class PolicyParameterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    type = serializers.ChoiceField(("number", "integer", "string"))
    default = serializers.JSONField()
    description = serializers.CharField()
    minimum = serializers.FloatField(allow_null=True)
    maximum = serializers.FloatField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField(), help_text="Empty: any value.")


class PolicySerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    family = serializers.ChoiceField(FAMILIES)
    description = serializers.CharField()
    is_default = serializers.BooleanField()
    parameters = PolicyParameterSerializer(many=True)


class PoliciesSerializer(serializers.Serializer[Any]):
    policies = PolicySerializer(many=True)


class PolicyChoiceSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="See GET policies.")
    parameters = serializers.DictField(help_text="Those that differ from the policy's defaults.")


class PolicyChoiceBody(Body):
    name = serializers.CharField(max_length=63, help_text="See GET policies.")
    parameters = serializers.DictField(required=False)


class VirtualClusterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    quotas = QuotasField(help_text="GPUs owned as a number, by GPU model.")
    cells = OwnedCellsSerializer(many=True, help_text="Cells owned, wherever they lie.")
    pins = serializers.ListField(child=serializers.CharField(), help_text="Pinned cells owned.")
    used = QuotasField(help_text="GPUs in use now, by GPU model.")
    role = serializers.ChoiceField(Role.values, allow_null=True)
    members = serializers.IntegerField()
    job_visibility = serializers.ChoiceField(
        Visibility.values,
        help_text="Who sees jobs that do not say otherwise, besides their owners, VC admins and "
        "admins.",
    )
    default_image = serializers.CharField(
        allow_blank=True, help_text="Of jobs that are written without an image; empty: none is set."
    )
    policy = PolicyChoiceSerializer(help_text="How its waiting jobs are ordered.")
    may_manage = serializers.BooleanField(help_text="Its members and who sees its jobs.")


class VirtualClusterBody(Body):
    name = serializers.CharField(max_length=63)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    quotas = QuotasField(required=False)


class VirtualClusterChange(Body):
    name = serializers.CharField(max_length=63, required=False, help_text="Only admins.")
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    job_visibility = serializers.ChoiceField(Visibility.values, required=False)
    default_image = serializers.RegexField(
        r"\A[A-Za-z0-9][A-Za-z0-9._/:@+-]*\Z",
        max_length=512,
        allow_blank=True,
        required=False,
        help_text="A name of the catalogue or a reference; empty: none.",
    )
    policy = PolicyChoiceBody(required=False, help_text="Only admins.")


class QuotasBody(Body):
    quotas = QuotasField()
    before = QuotasField(
        required=False,
        help_text="The quotas that you read: refused with `quotas_stale` if they are others now.",
    )


class VirtualClustersView(APIView):
    permission_classes = (AdminWrites,)

    @paged("list_virtual_clusters", VirtualClusterSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List the virtual clusters that you belong to; all of them for an admin."""
        rows = queries.with_facts(queries.visible_to(request.user), request.user)
        return page(request, rows, lambda vcs: _show(request.user, vcs), "name")

    @extend_schema(
        operation_id="create_virtual_cluster",
        request=VirtualClusterBody,
        responses={201: VirtualClusterSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        vc = services.create(current_user.admin(request), **validated(VirtualClusterBody, request))
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
        """For its VC admins, and admins, who alone may rename it and choose its policy."""
        vc = queries.find(request.user, name)
        user = vc_admin(request, vc)
        changes = validated(VirtualClusterChange, request, partial=True)
        if "name" in changes or "policy" in changes:
            user = current_user.admin(request)
        policy = changes.pop("policy", None)
        with transaction.atomic():
            if policy is not None:
                services.choose_policy(user, vc, policy["name"], policy.get("parameters", {}))
            if changes:
                vc = services.update(user, vc, **changes)
        return _one(request, vc.name)

    @extend_schema(operation_id="delete_virtual_cluster", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Delete a virtual cluster without jobs."""
        vc = queries.find(request.user, name)
        services.delete(current_user.admin(request), vc)
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
        body = validated(QuotasBody, request)
        services.set_quotas(
            current_user.admin(request), vc, body["quotas"], read=body.get("before")
        )
        return _one(request, name)


def _one(request: Request, name: str, status: int = 200) -> Response:
    vc = queries.find(request.user, name)
    rows = queries.with_facts(VirtualCluster.objects.filter(pk=vc.pk), request.user)
    return Response(_show(request.user, list(rows))[0], status=status)


def vc_admin(request: Request, vc: VirtualCluster) -> User:
    """Raises Forbidden."""
    user = current_user.user(request)
    if not queries.manages(user, vc):
        raise Forbidden(f"Only VC admins of {vc.name} and admins may do this.")
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
            "default_image": vc.default_image,
            "policy": services.chosen_policy(vc),
            "may_manage": admin or vc.own_role == Role.ADMIN,
        }
        for vc in vcs
    ]
    return list(VirtualClusterSerializer(rows, many=True).data)


class PoliciesView(APIView):
    @extend_schema(operation_id="list_policies", responses=PoliciesSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """List the policies by which the jobs of a virtual cluster may be ordered."""
        return Response(PoliciesSerializer({"policies": services.known_policies()}).data)


class LimitSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    value = serializers.IntegerField()
    default = serializers.IntegerField()
    minimum = serializers.IntegerField()
    maximum = serializers.IntegerField()
    unit = serializers.CharField(help_text='What the number counts; "switch" is 0 or 1.')
    description = serializers.CharField()
    is_set = serializers.BooleanField(help_text="Whether an admin set it; else it is the default.")
    is_open = serializers.BooleanField(help_text="Its default stands for no limit.")
    set_by = serializers.ChoiceField(
        list(limits.SetBy),
        help_text="Who may set it: admins, VC admins too, or VC admins up to its default.",
    )
    effect = serializers.ChoiceField(
        list(limits.Effect),
        help_text='What happens to a job beyond it: "submit", it is refused; "wait", it waits; '
        '"run", it is looked at while it runs.',
    )
    may_set = serializers.BooleanField(help_text="Whether you may set it.")
    used = serializers.IntegerField(
        allow_null=True,
        help_text="What is used of it now; per user or job, by the one with the most. Null: "
        "nothing is counted.",
    )


class LimitsSerializer(serializers.Serializer[Any]):
    limits = LimitSerializer(many=True)


class LimitBody(Body):
    value = serializers.IntegerField()


class LimitsView(APIView):
    @extend_schema(operation_id="list_limits", responses=LimitsSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List all limits of a virtual cluster, for its VC admins and for admins."""
        vc = queries.find(request.user, name)
        if not queries.manages(request.user, vc):
            raise Forbidden(f"Only VC admins of {vc.name} and admins may see its limits.")
        return Response(LimitsSerializer({"limits": _rows(vc, request.user)}).data)


class LimitView(APIView):
    @extend_schema(
        operation_id="set_limit", request=LimitBody, responses=LimitSerializer, tags=TAGS
    )
    def put(self, request: Request, name: str, limit: str) -> Response:
        """Set one limit, as an admin or, where `set_by` says so, as its VC admin. It ends no job
        that runs."""
        vc = queries.find(request.user, name)
        user, value = vc_admin(request, vc), validated(LimitBody, request)["value"]
        limits.check_may_set(vc, limit, value, is_admin=queries.is_admin(user))
        limits.set_limit(user, vc, limit, value)
        return Response(_row(request, vc, limit))

    @extend_schema(operation_id="reset_limit", responses={200: LimitSerializer}, tags=TAGS)
    def delete(self, request: Request, name: str, limit: str) -> Response:
        """Return one limit to its default."""
        vc = queries.find(request.user, name)
        user = vc_admin(request, vc)
        limits.check_may_set(vc, limit, None, is_admin=queries.is_admin(user))
        limits.reset_limit(user, vc, limit)
        return Response(_row(request, vc, limit))


def _row(request: Request, vc: VirtualCluster, name: str) -> Any:
    (row,) = (row for row in _rows(vc, request.user) if row["name"] == name)
    return LimitSerializer(row).data


def _rows(vc: VirtualCluster, user: Any) -> list[dict[str, Any]]:
    own, is_admin = limits.overrides(vc), queries.is_admin(user)
    used = ports.use_of_limits.call(vc.pk)
    return [
        {
            "name": name,
            "value": own.get(name, known.default),
            "default": known.default,
            "minimum": known.minimum,
            "maximum": known.maximum,
            "unit": known.unit,
            "description": known.description,
            "is_set": name in own,
            "is_open": known.is_open,
            "set_by": known.set_by,
            "effect": known.effect,
            "may_set": is_admin or known.set_by != limits.SetBy.ADMIN,
            "used": used.get(name),
        }
        for name, known in LIMITS.items()
    ]
