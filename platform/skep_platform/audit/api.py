"""REST: the audit log, its actions, and its export."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.audit import queries, services
from skep_platform.audit.actions import ACTIONS
from skep_platform.audit.models import ActorKind, AuditEntry, Outcome
from skep_platform.core.api import parameters
from skep_platform.core.csv_files import CONTENT_TYPE, csv_text
from skep_platform.core.paging import page, paged
from skep_platform.core.serving import at_database
from skep_platform.core.throttling import Exports, Searches

TAGS = ["audit"]
FORMATS = {"csv": CONTENT_TYPE, "jsonl": "application/jsonl"}
ORDERINGS = ["-at", "at"]


class AuditActorSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(ActorKind.values)
    id = serializers.IntegerField(allow_null=True)
    name = serializers.CharField(allow_blank=True, help_text="As it was then.")


class AuditTokenSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    scope = serializers.CharField()


class AuditTargetSerializer(serializers.Serializer[Any]):
    type = serializers.CharField()
    id = serializers.CharField(allow_blank=True)
    name = serializers.CharField(allow_blank=True, help_text="As it was then.")


class AuditEntrySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    action = serializers.CharField(help_text="See GET audit/actions.")
    outcome = serializers.ChoiceField(Outcome.values)
    actor = AuditActorSerializer()
    token = AuditTokenSerializer(allow_null=True, help_text="Null for a session.")
    address = serializers.CharField(allow_blank=True)
    user_agent = serializers.CharField(allow_blank=True)
    request_id = serializers.CharField(allow_blank=True)
    target = AuditTargetSerializer()
    virtual_cluster = serializers.CharField(allow_blank=True)
    before = serializers.DictField(allow_null=True, help_text="What differs from `after`.")
    after = serializers.DictField(allow_null=True)
    facts = serializers.DictField(help_text="More, such as the `code` of a refusal.")


class AuditActionSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    target_type = serializers.CharField()
    description = serializers.CharField()


class AuditActionsSerializer(serializers.Serializer[Any]):
    actions = AuditActionSerializer(many=True)


class AuditQuery(serializers.Serializer[Any]):
    actor = serializers.CharField(required=False, help_text="User name at that time.")
    action = serializers.CharField(
        required=False, help_text="Comma list of names or prefixes: `job` is all of `job.…`."
    )
    outcome = serializers.ChoiceField(Outcome.values, required=False)
    target_type = serializers.CharField(required=False, max_length=32)
    target = serializers.CharField(
        required=False,
        max_length=255,
        help_text="Part of the target's name, in any case; the whole name below 3 characters.",
    )
    virtual_cluster = serializers.CharField(required=False, max_length=63)
    address = serializers.CharField(required=False, max_length=64)
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False, help_text="Not included.")


class AuditListQuery(AuditQuery):
    ordering = serializers.ChoiceField(ORDERINGS, required=False, help_text="Default: -at.")


class AuditExportQuery(AuditQuery):
    format = serializers.ChoiceField(sorted(FORMATS), required=False, help_text="Default: csv.")


def _described(query: type[serializers.Serializer[Any]]) -> list[OpenApiParameter]:
    return [
        OpenApiParameter(
            name,
            OpenApiTypes.DATETIME if isinstance(field, serializers.DateTimeField) else str,
            enum=list(field.choices) if isinstance(field, serializers.ChoiceField) else None,
            description=str(field.help_text or ""),
        )
        for name, field in query().fields.items()
    ]


def _filter(asked: dict[str, Any]) -> queries.AuditFilter:
    actions = tuple(name for name in asked.pop("action", "").split(",") if name)
    return queries.AuditFilter(actions=actions, **asked)


class AuditView(APIView):
    throttle_classes = (Searches,)

    @paged("list_audit_entries", AuditEntrySerializer, TAGS, *_described(AuditListQuery))
    def get(self, request: Request) -> Response:
        """List audit entries, newest first. Admins see all, VC admins those
        of their virtual clusters, and each user those of what the user did."""
        asked = parameters(AuditListQuery, request)
        descending = asked.pop("ordering", "-at") == "-at"
        rows, among = queries.find(request.user, _filter(asked))
        return page(request, rows, _shown, "id", descending=descending, among=among)


class AuditActionsView(APIView):
    @extend_schema(operation_id="list_audit_actions", responses=AuditActionsSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """List the actions that are recorded."""
        actions = [
            {"name": name, "target_type": action.target_type, "description": action.description}
            for name, action in ACTIONS.items()
        ]
        return Response({"actions": actions})


class AuditExportView(APIView):
    throttle_classes = (Exports,)

    @extend_schema(
        operation_id="export_audit_entries",
        parameters=_described(AuditExportQuery),
        responses={
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/jsonl"): OpenApiTypes.STR,
        },
        tags=TAGS,
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Download the entries that the list has, newest first, without a bound. Cells of the CSV
        file that a spreadsheet would take for a formula begin with an apostrophe."""
        asked = parameters(AuditExportQuery, request)
        chosen = asked.pop("format", "csv")
        which = _filter(dict(asked))
        queries.find(request.user, which)  # refuse here what is wrong: later it is too late
        services.record("audit.export", "audit", format=chosen, filter=asked)
        content = _pieces(request.user, which, _csv if chosen == "csv" else _jsonl)
        response = StreamingHttpResponse(content, content_type=FORMATS[chosen])
        name = f"audit-{timezone.now():%Y%m%d-%H%M%S}.{chosen}"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        return response


async def _pieces(
    user: Any, which: queries.AuditFilter, render: Callable[[list[AuditEntry], bool], str]
) -> AsyncIterator[bytes]:
    """Between two pieces no database connection is held, however slowly the file is taken."""
    after: UUID | None = None
    while True:
        rows = await sync_to_async(at_database)(queries.export, user, which, after)
        if rows or after is None:
            yield render(rows, after is None).encode()
        if not rows:
            return
        after = rows[-1].id


def _shown(rows: list[AuditEntry]) -> list[Any]:
    return list(AuditEntrySerializer([_row(entry) for entry in rows], many=True).data)


def _row(entry: AuditEntry) -> dict[str, Any]:
    token = {"id": entry.token_id, "name": entry.token_name, "scope": entry.token_scope}
    return {
        "id": entry.id,
        "at": entry.at,
        "action": entry.action,
        "outcome": entry.outcome,
        "actor": {"kind": entry.actor_kind, "id": entry.actor_id, "name": entry.actor_name},
        "token": token if entry.token_id else None,
        "address": entry.address,
        "user_agent": entry.user_agent,
        "request_id": entry.request_id,
        "target": {
            "type": entry.target_type,
            "id": entry.target_id,
            "name": entry.target_name,
        },
        "virtual_cluster": entry.vc_name,
        "before": entry.before,
        "after": entry.after,
        "facts": entry.facts,
    }


COLUMNS: dict[str, Callable[[AuditEntry], Any]] = {
    "at": lambda entry: entry.at.isoformat(timespec="milliseconds"),
    "id": lambda entry: entry.id,
    "action": lambda entry: entry.action,
    "outcome": lambda entry: entry.outcome,
    "actor_kind": lambda entry: entry.actor_kind,
    "actor_id": lambda entry: entry.actor_id,
    "actor_name": lambda entry: entry.actor_name,
    "token_id": lambda entry: entry.token_id,
    "token_name": lambda entry: entry.token_name,
    "token_scope": lambda entry: entry.token_scope,
    "address": lambda entry: entry.address,
    "user_agent": lambda entry: entry.user_agent,
    "request_id": lambda entry: entry.request_id,
    "target_type": lambda entry: entry.target_type,
    "target_id": lambda entry: entry.target_id,
    "target_name": lambda entry: entry.target_name,
    "virtual_cluster": lambda entry: entry.vc_name,
    "before": lambda entry: _json(entry.before),
    "after": lambda entry: _json(entry.after),
    "facts": lambda entry: _json(entry.facts),
}


def _csv(rows: list[AuditEntry], first: bool) -> str:
    head = csv_text([COLUMNS]) if first else ""
    return head + csv_text([value(entry) for value in COLUMNS.values()] for entry in rows)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if value else ""


def _jsonl(rows: list[AuditEntry], first: bool) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in _shown(rows))
