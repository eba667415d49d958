"""REST: clones of jobs, their tags, and job files made out of other formats."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_jobfile.skep_extras import MAX_PRIORITY
from skep_platform.accounts import acting
from skep_platform.accounts.scopes import Scope
from skep_platform.core.api import Body, validated
from skep_platform.core.parsers import body_text
from skep_platform.jobs import services
from skep_platform.jobs.api import JOB_FILE_PARSERS, TAGS, detail, one_of
from skep_platform.jobs.intake.tag_rules import MAX_TAGS
from skep_platform.jobs.serializers import JobSerializer
from skep_platform.tenancy.models import Visibility

Serializer = serializers.Serializer[Any]
FORMATS = ["auto", "slurm", "kubeflow"]


class CloneSerializer(Body):
    name = serializers.CharField(
        required=False, max_length=255, help_text="Of the new job; default: numbered."
    )


class TagsSerializer(Body):
    tags = serializers.ListField(
        child=serializers.CharField(max_length=64, trim_whitespace=False),
        max_length=MAX_TAGS,
        help_text="All of them.",
    )


class VisibilitySerializer(Body):
    visibility = serializers.ChoiceField(
        Visibility.values, allow_null=True, help_text="Null: as its virtual cluster says."
    )


class PrioritySerializer(Body):
    priority = serializers.IntegerField(min_value=0, max_value=MAX_PRIORITY)


class ConvertNoteSerializer(Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    line = serializers.IntegerField(help_text="Of what was sent.")


class ConvertedSerializer(Serializer):
    text = serializers.CharField(help_text="The job file.")
    notes = ConvertNoteSerializer(many=True, help_text="What could not be carried over as it was.")


class CloneView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="clone_job",
        request=CloneSerializer,
        responses={201: JobSerializer},
        tags=TAGS,
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Submit your own job again, with its secrets and working files."""
        asked = validated(CloneSerializer, request)
        job = services.clone(acting.user(request), id, asked.get("name", ""))
        return Response(detail(request, job), status=201)


class RetryView(APIView):
    @extend_schema(operation_id="retry_job", request=None, responses=JobSerializer, tags=TAGS)
    def post(self, request: Request, id: UUID) -> Response:
        """Do not wait out the pause before the next attempt. For its owner, managers of its virtual
        cluster and admins."""
        return Response(detail(request, services.retry_now(acting.user(request), id)))


class TagsView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="set_job_tags", request=TagsSerializer, responses=JobSerializer, tags=TAGS
    )
    def put(self, request: Request, id: UUID) -> Response:
        """For its owner, managers of its virtual cluster and admins."""
        tags = validated(TagsSerializer, request)["tags"]
        job = services.set_tags(acting.user(request), id, tags)
        return Response(detail(request, job))


class VisibilityView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="set_job_visibility",
        request=VisibilitySerializer,
        responses=JobSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, id: UUID) -> Response:
        """Who sees the job besides its owner, the managers of its virtual cluster and admins. For
        its owner and admins."""
        asked = validated(VisibilitySerializer, request)["visibility"]
        job = services.set_visibility(acting.user(request), id, asked or "")
        return Response(detail(request, job))


class PriorityView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="set_job_priority",
        request=PrioritySerializer,
        responses=JobSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, id: UUID) -> Response:
        """For managers of its virtual cluster and admins. The scheduler ranks the job anew."""
        asked = validated(PrioritySerializer, request)["priority"]
        job = services.set_priority(acting.user(request), id, asked)
        return Response(detail(request, job))


class ConvertView(APIView):
    token_scope = Scope.SUBMIT
    parser_classes = JOB_FILE_PARSERS

    @extend_schema(
        operation_id="convert_to_job_file",
        request={"text/plain": OpenApiTypes.STR},
        parameters=[OpenApiParameter("format", str, enum=FORMATS, description="Default: auto.")],
        responses=ConvertedSerializer,
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """A job file out of a Slurm batch script or a Kubeflow manifest. Changes nothing."""
        asked = one_of("format", request.query_params.get("format") or "auto", FORMATS)
        found = services.convert(acting.user(request), body_text(request), asked)
        return Response(ConvertedSerializer(found).data)
