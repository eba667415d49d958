"""REST: one change to several jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_limits import MAX_TAG
from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.core.api import Body, validated
from skep_platform.jobs import bulk
from skep_platform.jobs.api import TAGS
from skep_platform.jobs.submission.bounds import MAX_TAGS


class _Tags(serializers.ListField):
    child = serializers.CharField(max_length=MAX_TAG, trim_whitespace=False)


class BulkStopSerializer(Body):
    jobs = serializers.ListField(
        child=serializers.UUIDField(), min_length=1, max_length=bulk.MOST_JOBS
    )


class BulkTagsSerializer(BulkStopSerializer):
    add = _Tags(max_length=MAX_TAGS, default=list)
    remove = _Tags(max_length=MAX_TAGS, default=list)


class BulkResultSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(help_text="Of the job.")
    done = serializers.BooleanField()
    code = serializers.CharField(help_text="Of the error for which it was refused, or empty.")
    message = serializers.CharField(help_text="The same in words.")


class BulkResultsSerializer(serializers.Serializer[Any]):
    results = BulkResultSerializer(many=True, help_text="In the order of the request.")


class BulkStopView(APIView):
    job_tokens = True
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="stop_jobs",
        request=BulkStopSerializer,
        responses=BulkResultsSerializer,
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Stop at most 100 jobs. Each is stopped or refused by itself."""
        asked = validated(BulkStopSerializer, request)
        return _shown(bulk.stop(current_user.user(request), asked["jobs"]))


class BulkTagsView(APIView):
    job_tokens = True
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="tag_jobs",
        request=BulkTagsSerializer,
        responses=BulkResultsSerializer,
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Add tags to at most 100 jobs, and remove others. Each is changed or refused by itself."""
        user, asked = current_user.user(request), validated(BulkTagsSerializer, request)
        return _shown(bulk.change_tags(user, asked["jobs"], asked["add"], asked["remove"]))


def _shown(results: Sequence[bulk.BulkResult]) -> Response:
    return Response(BulkResultsSerializer({"results": results}).data)
