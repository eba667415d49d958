"""REST: what the owner of a job asks of it after the submit."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.core.api import Body, validated
from skep_platform.jobs import services
from skep_platform.jobs.api import IDEMPOTENCY_KEY, TAGS, detail, idempotency_key
from skep_platform.jobs.serializers import JobSerializer

MAX_MEMORY_MB = 2**31 - 1


class MoveSerializer(Body):
    node = serializers.CharField(max_length=255, help_text="Name of a node that it runs on.")


class RunAgainSerializer(Body):
    name = serializers.CharField(
        required=False, max_length=255, help_text="Of the new job; default: numbered."
    )
    memory_mb = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_MEMORY_MB,
        help_text="Of each task of the role that ran out of memory, or else of all roles.",
    )
    elsewhere = serializers.BooleanField(
        default=False, help_text="Prefer other nodes than those where it failed, for a day."
    )


class OpportunisticView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="run_job_opportunistically",
        request=None,
        responses=JobSerializer,
        tags=TAGS,
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Let a waiting job start now on GPUs that no job uses, without its guarantee: it is
        preempted when their owners need them. For its owner, VC admins and admins."""
        job = services.run_opportunistically(current_user.user(request), id)
        return Response(detail(request, job))


class EndRetriesView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(operation_id="end_job_retries", request=None, responses=JobSerializer, tags=TAGS)
    def post(self, request: Request, id: UUID) -> Response:
        """Try a job no more after a failure; one that waits for its next attempt ends at once.
        For its owner, VC admins and admins. May be repeated."""
        return Response(detail(request, services.end_retries(current_user.user(request), id)))


class MoveView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="move_job", request=MoveSerializer, responses=JobSerializer, tags=TAGS
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Move a running job off a node: it saves its work, ends, and starts again on other nodes.
        For its owner, VC admins and admins."""
        node = validated(MoveSerializer, request)["node"]
        return Response(detail(request, services.move(current_user.user(request), id, node)))


class RunAgainView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="run_job_again",
        request=RunAgainSerializer,
        responses={201: JobSerializer},
        parameters=[IDEMPOTENCY_KEY],
        tags=TAGS,
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Submit your own job again, with its secrets and working files: with more memory, or on
        other nodes."""
        asked = validated(RunAgainSerializer, request)
        token = idempotency_key(request)
        job = services.run_again(current_user.user(request), id, **asked, client_token=token)
        return Response(detail(request, job), status=201)
