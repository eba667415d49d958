"""REST: changes to jobs, clones of them, and job files made out of other formats."""

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
from skep_limits import MAX_TAG
from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.core.api import Body, validated
from skep_platform.core.parsers import body_text
from skep_platform.jobs import services
from skep_platform.jobs.api import IDEMPOTENCY_KEY, JOB_FILE_PARSERS, TAGS, detail, idempotency_key
from skep_platform.jobs.filters import one_of
from skep_platform.jobs.serializers import JobSerializer
from skep_platform.jobs.submission.bounds import MAX_TAGS
from skep_platform.tenancy.models import Visibility

Serializer = serializers.Serializer[Any]
FORMATS = ["auto", "slurm", "kubeflow"]


class CloneSerializer(Body):
    name = serializers.CharField(
        required=False, max_length=255, help_text="Of the new job; default: numbered."
    )


class TagsSerializer(Body):
    tags = serializers.ListField(
        child=serializers.CharField(max_length=MAX_TAG, trim_whitespace=False),
        max_length=MAX_TAGS,
        help_text="All of them.",
    )


class VisibilitySerializer(Body):
    visibility = serializers.ChoiceField(
        Visibility.values, allow_null=True, help_text="Null: as its virtual cluster says."
    )


class PrioritySerializer(Body):
    priority = serializers.IntegerField(min_value=0, max_value=MAX_PRIORITY)


class IdleExemptionSerializer(Body):
    exempt = serializers.BooleanField()


class ConvertNoteSerializer(Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    line = serializers.IntegerField(help_text="Of what was sent.")


class ConvertedSerializer(Serializer):
    text = serializers.CharField(help_text="The job file.")
    notes = ConvertNoteSerializer(many=True, help_text="What could not be carried over as it was.")


class CloneView(APIView):
    job_tokens = True
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="clone_job",
        request=CloneSerializer,
        responses={201: JobSerializer},
        parameters=[IDEMPOTENCY_KEY],
        tags=TAGS,
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Submit your own job again, with its secrets and working files."""
        asked = validated(CloneSerializer, request)
        token = idempotency_key(request)
        job = services.clone(
            current_user.user(request), id, asked.get("name", ""), client_token=token
        )
        return Response(detail(request, job), status=201)


class RetryView(APIView):
    @extend_schema(operation_id="retry_job", request=None, responses=JobSerializer, tags=TAGS)
    def post(self, request: Request, id: UUID) -> Response:
        """End the pause before the next attempt. For its owner, VC admins of its virtual
        cluster and admins."""
        return Response(detail(request, services.retry_now(current_user.user(request), id)))


class TagsView(APIView):
    job_tokens = True
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="set_job_tags", request=TagsSerializer, responses=JobSerializer, tags=TAGS
    )
    def put(self, request: Request, id: UUID) -> Response:
        """Replace the tags of a job. For its owner, VC admins and admins."""
        tags = validated(TagsSerializer, request)["tags"]
        job = services.set_tags(current_user.user(request), id, tags)
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
        """Set who sees the job besides its owner, VC admins and admins.
        For its owner and admins."""
        asked = validated(VisibilitySerializer, request)["visibility"]
        job = services.set_visibility(current_user.user(request), id, asked or "")
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
        """Change the priority of a job, which the scheduler then ranks anew. For VC admins of its
        virtual cluster and admins."""
        asked = validated(PrioritySerializer, request)["priority"]
        job = services.set_priority(current_user.user(request), id, asked)
        return Response(detail(request, job))


class IdleExemptionView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="set_job_idle_exemption",
        request=IdleExemptionSerializer,
        responses=JobSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, id: UUID) -> Response:
        """Let a job keep GPUs that it does not use, or no longer. For VC admins of its virtual
        cluster and admins."""
        exempt = validated(IdleExemptionSerializer, request)["exempt"]
        job = services.set_idle_exempt(current_user.user(request), id, exempt)
        return Response(detail(request, job))


class ConvertView(APIView):
    job_tokens = True
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
        """Make a job file out of a Slurm batch script or a Kubeflow manifest. Changes nothing."""
        asked = one_of("format", request.query_params.get("format") or "auto", FORMATS)
        found = services.convert(current_user.user(request), body_text(request), asked)
        return Response(ConvertedSerializer(found).data)
