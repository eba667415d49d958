"""Names of the enumerations in the OpenAPI schema: fields of one name have different values."""

from __future__ import annotations

ENUMS = {
    "JobState": "skep_platform.jobs.states.JobState.choices",
    "AttemptState": "skep_platform.jobs.states.AttemptState.choices",
    "Visibility": "skep_platform.tenancy.models.Visibility.values",
    "VcRole": "skep_platform.tenancy.models.Role.values",
    "ServiceAccountRole": "skep_platform.tenancy.service_accounts.ROLES",
    "TokenScope": "skep_platform.accounts.models.Scope.values",
    "ServiceAccountTokenScope": "skep_platform.tenancy.service_accounts.SCOPES",
    "NodeState": "skep_platform.cluster.models.NodeState.values",
    "AnnouncementSeverity": "skep_platform.cluster.models.AnnouncementSeverity.values",
    "CellState": "skep_platform.cells.serializers.STATES",
    "PresentJobState": "skep_platform.simulations.forecasting.STATES",
    "StorageFileType": "skep_platform.storage.files.TYPES",
    "AppType": "skep_platform.interactive.models.AppType.values",
    "AppState": "skep_platform.interactive.queries.STATES",
    "NotificationChannelName": "skep_platform.notifications.api.CHANNELS",
    "DeliveryChannel": "skep_platform.notifications.api.SENT",
    "DeliveryState": "skep_platform.notifications.models.DeliveryState.values",
    "WebhookFormat": "skep_platform.notifications.models.WebhookFormat.values",
    "StorageType": "skep_platform.storage.models.StorageType.values",
    "AlertRuleKind": "skep_platform.operations.models.RuleKind.values",
    "AlertRuleAction": "skep_platform.operations.models.RuleAction.values",
    "FindingSeverity": "skep_platform.operations.doctor.findings.SEVERITIES",
    "SimulationState": "skep_platform.simulations.models.SimulationState.values",
    "SimulatedPlacement": "skep_platform.simulations.api.PLACEMENTS",
}
