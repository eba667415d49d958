"""REST: templates of jobs."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import Body, validated
from skep_platform.core.errors import SkepError
from skep_platform.core.paging import page, paged
from skep_platform.core.throttling import Searches
from skep_platform.templates import queries, services
from skep_platform.templates.models import Template
from skep_platform.tenancy.models import NAME

TAGS = ["templates"]
ORDERINGS = {"stars": ("stars", "pk"), "name": ("name", "pk"), "created_at": ("created_at", "pk")}
FOR_ALL = "Whose members see it; null: every user."


class TemplateSummarySerializer(serializers.Serializer[Template]):
    name = serializers.CharField(
        source="address",
        help_text="By which it is found: OWNER.NAME; the name alone where it came with Skep.",
    )
    title = serializers.CharField()
    description = serializers.CharField()
    owner = serializers.CharField(
        source="owner.username", default="", help_text="Empty: it came with Skep, or nobody's."
    )
    virtual_cluster = serializers.CharField(
        source="vc.name", default=None, allow_null=True, help_text=FOR_ALL
    )
    shipped = serializers.BooleanField(help_text="It came with Skep.")
    listed = serializers.BooleanField(help_text="False: only its owner and admins see it.")
    gpus = serializers.IntegerField(help_text="Of the whole job.")
    tasks = serializers.IntegerField()
    stars = serializers.IntegerField()
    starred = serializers.BooleanField(help_text="By you.")
    updated_at = serializers.DateTimeField()


class TemplateSerializer(TemplateSummarySerializer):
    text = serializers.CharField(help_text="The job file.")
    parameters = serializers.DictField(help_text="Those of the job file.")
    may_change = serializers.BooleanField()


class TemplateBody(Body):
    name = serializers.CharField(
        max_length=63, validators=[NAME], help_text="Unique among your own templates."
    )
    title = serializers.CharField(max_length=100)
    description = serializers.CharField(max_length=4000, allow_blank=True, required=False)
    text = serializers.CharField(trim_whitespace=False, help_text="A job file without secrets.")
    virtual_cluster = serializers.CharField(
        max_length=63, allow_null=True, required=False, help_text=FOR_ALL
    )


class TemplateChange(Body):
    title = serializers.CharField(max_length=100, required=False)
    description = serializers.CharField(max_length=4000, allow_blank=True, required=False)
    text = serializers.CharField(trim_whitespace=False, required=False)
    virtual_cluster = serializers.CharField(
        max_length=63, allow_null=True, required=False, help_text=FOR_ALL
    )
    listed = serializers.BooleanField(required=False, help_text="For admins.")


class TemplatesView(APIView):
    throttle_classes = (Searches,)

    @paged(
        "list_templates",
        TemplateSummarySerializer,
        TAGS,
        OpenApiParameter("search", str, description="Words in name, title or description."),
        OpenApiParameter("mine", bool, description="Only your own."),
        OpenApiParameter("starred", bool, description="Only those that you starred."),
        OpenApiParameter(
            "ordering", str, description=f"Of {', '.join(ORDERINGS)}; '-' descends; default -stars."
        ),
    )
    def get(self, request: Request) -> Response:
        """List the templates that you may use: those for all and those of your virtual clusters."""
        ordering = request.query_params.get("ordering") or "-stars"
        columns = ORDERINGS.get(ordering.removeprefix("-"))
        if columns is None:
            message = f"ordering is one of {', '.join(ORDERINGS)}."
            details = {"parameter": "ordering", "value": ordering[:100]}
            raise SkepError(message, code="invalid_filter", **details)
        found = queries.visible_to(request.user).defer("text")
        found = queries.search(found, request.query_params.get("search", "")[:255])
        if request.query_params.get("mine") in ("true", "1"):
            found = found.filter(owner_id=request.user.pk)
        if request.query_params.get("starred") in ("true", "1"):
            found = queries.starred_by(found, request.user)
        return page(request, found, _show, *columns, descending=ordering.startswith("-"))

    @extend_schema(
        operation_id="create_template",
        request=TemplateBody,
        responses={201: TemplateSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Publish a job file to a virtual cluster, or to every user."""
        user = current_user.user(request)
        made = services.create(user, **validated(TemplateBody, request))
        return _one(request, made, status=201)


class TemplateView(APIView):
    @extend_schema(operation_id="get_template", responses=TemplateSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        return _one(request, queries.find(request.user, name))

    @extend_schema(
        operation_id="update_template",
        request=TemplateChange,
        responses=TemplateSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change a template. For its owner and admins; admins hide one by `listed`."""
        user = current_user.user(request)
        changes = validated(TemplateChange, request, partial=True)
        return _one(request, services.update(user, queries.find(user, name), **changes))

    @extend_schema(operation_id="delete_template", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Delete a template. For its owner and admins. Jobs that were made from it stay."""
        user = current_user.user(request)
        services.delete(user, queries.find(user, name))
        return Response(status=204)


class StarView(APIView):
    @extend_schema(
        operation_id="star_template", request=None, responses=TemplateSerializer, tags=TAGS
    )
    def put(self, request: Request, name: str) -> Response:
        """Star a template, so that you and others find it."""
        user = current_user.user(request)
        return _one(request, services.star(user, queries.find(user, name), on=True))

    @extend_schema(operation_id="unstar_template", responses=TemplateSerializer, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Take your star back."""
        user = current_user.user(request)
        return _one(request, services.star(user, queries.find(user, name), on=False))


def _show(templates: list[Template]) -> list[Any]:
    show = TemplateSummarySerializer().to_representation
    return [show(template) for template in templates]


def _one(request: Request, template: Template, status: int = 200) -> Response:
    template.may_change = queries.may_change(request.user, template)  # type: ignore[attr-defined]
    return Response(TemplateSerializer(template).data, status=status)
