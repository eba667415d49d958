"""REST: many jobs in one request."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.core.api import Body, validated
from skep_platform.jobs.api import TAGS, idempotency_key
from skep_platform.jobs.submission import batch

MAX_NAME = 240  # and a number behind it
MAX_FIRST = 1_000_000


class _Text(serializers.CharField):
    """A job file as it was written."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)


class BatchSerializer(Body):
    files = serializers.ListField(
        child=_Text(),
        required=False,
        min_length=1,
        max_length=batch.MOST_JOBS,
        help_text="Job files, as YAML or JSON.",
    )
    file = _Text(required=False, help_text="One job file, for `sweep`.")
    sweep = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        min_length=1,
        max_length=batch.MOST_JOBS,
        help_text="For each job the `parameters` of the file that are its own, by name.",
    )
    name = serializers.CharField(
        required=False,
        max_length=MAX_NAME,
        help_text="Of the jobs of a sweep, before -1, -2, ...; default: that of the file.",
    )
    first = serializers.IntegerField(
        default=1, min_value=1, max_value=MAX_FIRST, help_text="Number of the first job of a sweep."
    )
    ignore_storage = serializers.BooleanField(
        default=False, help_text="Accept jobs whose storages are not mounted."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        swept = {"file", "sweep"} & attrs.keys()
        if ("files" in attrs) == bool(swept) or len(swept) == 1:
            raise serializers.ValidationError(
                "Send `files`, or `file` with `sweep`.", code="invalid"
            )
        return attrs


class BatchResultSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField(help_text="In `files` or `sweep`, from 0 on.")
    id = serializers.UUIDField(allow_null=True, help_text="Of the job; null: it was refused.")
    name = serializers.CharField(help_text="Of the job, or empty.")
    code = serializers.CharField(help_text="Of the error for which it was refused, or empty.")
    message = serializers.CharField(help_text="The same in words.")
    details = serializers.DictField(allow_null=True, help_text="Of the error.")


class BatchResultsSerializer(serializers.Serializer[Any]):
    accepted = serializers.IntegerField()
    refused = serializers.IntegerField()
    results = BatchResultSerializer(many=True, help_text="In the order of the request.")


class BatchView(APIView):
    job_tokens = True
    token_scope = Scope.SUBMIT

    @extend_schema(
        operation_id="submit_jobs",
        request=BatchSerializer,
        responses=BatchResultsSerializer,
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                str,
                OpenApiParameter.HEADER,
                description="A request that is repeated with it returns the same jobs.",
            )
        ],
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Submit at most 1,000 jobs: several job files, or one with other parameters each time.
        Each is accepted or refused by itself."""
        user, asked = current_user.user(request), validated(BatchSerializer, request)
        files = asked.get("files")
        if files is None:
            name, first = asked.get("name", ""), asked["first"]
            files = batch.sweep(user, asked["file"], asked["sweep"], name, first)
        found = batch.submit_all(
            user,
            files,
            client_token=idempotency_key(request),
            ignore_storage=asked["ignore_storage"],
        )
        results = [asdict(one) for one in found]
        accepted = sum(one["id"] is not None for one in results)
        answer = {"accepted": accepted, "refused": len(results) - accepted, "results": results}
        return Response(BatchResultsSerializer(answer).data)
