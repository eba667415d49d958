"""REST of the rules by which administrators are alerted, and of the alerts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.core.api import Body, IsAdmin, validated
from skep_platform.core.paging import page, paged
from skep_platform.operations import rules
from skep_platform.operations.models import Alert, AlertRule, RuleAction, RuleKind

TAGS = ["operations"]
MOST_MINUTES = 7 * 24 * 60


class AlertRuleSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(RuleKind.values)
    threshold = serializers.FloatField(help_text="In the unit of its kind.")
    for_minutes = serializers.IntegerField(help_text="Met for so long before it fires.")
    action = serializers.ChoiceField(RuleAction.values)
    enabled = serializers.BooleanField()
    recipients = serializers.SerializerMethodField(help_text="None: all administrators.")

    def get_recipients(self, rule: AlertRule) -> list[str]:
        return sorted(user.username for user in rule.recipients.all())


class AlertRuleChanges(Body):
    name = serializers.CharField(max_length=63, required=False)
    threshold = serializers.FloatField(required=False)
    for_minutes = serializers.IntegerField(min_value=0, max_value=MOST_MINUTES, required=False)
    action = serializers.ChoiceField(RuleAction.values, required=False)
    enabled = serializers.BooleanField(required=False)
    recipients = serializers.ListField(
        child=serializers.CharField(max_length=150),
        max_length=rules.MOST_RECIPIENTS,
        required=False,
        help_text="Names of users; none: all administrators.",
    )


class AlertRuleBody(AlertRuleChanges):
    name = serializers.CharField(max_length=63)
    kind = serializers.ChoiceField(RuleKind.values)


class PlatformAlertSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    rule = serializers.CharField(source="rule.name")
    kind = serializers.ChoiceField(RuleKind.values, source="rule.kind")
    subject = serializers.CharField(
        help_text="Name of a node, id of a job, host and port of a certificate, check of the "
        "doctor, or log store."
    )
    message = serializers.CharField()
    details = serializers.DictField()
    since = serializers.DateTimeField(source="created_at")
    fired_at = serializers.DateTimeField(
        allow_null=True, help_text="Null: it is met, and not for long enough yet."
    )
    acted = serializers.CharField(
        allow_blank=True,
        help_text="What was done. An action that failed is tried again while the alert is open.",
    )
    ended_at = serializers.DateTimeField(allow_null=True)


class AlertRulesView(APIView):
    permission_classes = (IsAdmin,)

    @paged("list_alert_rules", AlertRuleSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List the rules by name."""
        found = AlertRule.objects.prefetch_related("recipients")
        return page(request, found, _show_rules, "name")

    @extend_schema(
        operation_id="create_alert_rule",
        request=AlertRuleBody,
        responses={201: AlertRuleSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Create a rule. Without a threshold it has the default of its kind."""
        made = rules.create(**validated(AlertRuleBody, request))
        return Response(_show_rules([made])[0], status=201)


class AlertRuleView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="update_alert_rule",
        request=AlertRuleChanges,
        responses=AlertRuleSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request, id: UUID) -> Response:
        """Change a rule. Its kind stays."""
        changed = rules.update(id, **validated(AlertRuleChanges, request))
        return Response(_show_rules([changed])[0])

    @extend_schema(operation_id="delete_alert_rule", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Delete a rule with its alerts."""
        rules.delete(id)
        return Response(status=204)


class AlertsView(APIView):
    permission_classes = (IsAdmin,)

    @paged(
        "list_alerts",
        PlatformAlertSerializer,
        TAGS,
        OpenApiParameter("active", bool, description="Only those that have not ended."),
    )
    def get(self, request: Request) -> Response:
        """List the alerts of the rules, newest first."""
        found = Alert.objects.select_related("rule")
        if request.query_params.get("active", "").lower() in ("1", "true"):
            found = found.filter(ended_at=None)
        return page(request, found, _show_alerts, "id", descending=True)


def _show_rules(rows: list[Any]) -> list[Any]:
    return list(AlertRuleSerializer(rows, many=True).data)


def _show_alerts(rows: list[Any]) -> list[Any]:
    return list(PlatformAlertSerializer(rows, many=True).data)
